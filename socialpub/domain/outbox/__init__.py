"""Outbound delivery to user-chosen addresses: scheduling, results, address policy."""
