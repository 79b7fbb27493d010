"""Notification channels, and the messages that are sent to them."""
