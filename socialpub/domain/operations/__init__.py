"""Operator tasks: server status, metrics, master key rotation and loss."""
