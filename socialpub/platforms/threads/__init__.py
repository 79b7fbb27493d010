"""Threads, over Meta's Threads API."""
