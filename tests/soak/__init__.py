"""Slow tests under load, kills, faults and power loss."""
