"""Fake platforms for tests, demonstrations and development: they behave as the platforms do, not as we would like."""
