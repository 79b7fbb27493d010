"""Webhook endpoints, and the signed deliveries of events to them."""
