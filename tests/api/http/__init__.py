"""Tests of HTTP itself: framing, limits, errors, idempotency, start and stop."""
