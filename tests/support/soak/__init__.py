"""Processes, client load and invariant checks of the soak tests."""
