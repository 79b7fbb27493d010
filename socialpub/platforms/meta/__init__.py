"""Shared parts of the platforms on Meta's Graph APIs."""
