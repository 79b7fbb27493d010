"""Schemas of requests, responses and events: types without behavior."""
