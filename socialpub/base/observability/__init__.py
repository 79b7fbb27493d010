"""Logging, redaction, metrics and traces."""
