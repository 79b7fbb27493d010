"""Pinterest, over API v5."""
