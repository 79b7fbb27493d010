"""Outbound delivery to user-chosen addresses: outbox worker, attempts and URL policy."""
