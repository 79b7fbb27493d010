"""Schemas of requests, responses and events."""
