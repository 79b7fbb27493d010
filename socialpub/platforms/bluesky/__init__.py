"""Bluesky, over the AT Protocol."""
