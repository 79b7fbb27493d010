"""Webhooks: the event log, and the endpoints that events are sent to."""
