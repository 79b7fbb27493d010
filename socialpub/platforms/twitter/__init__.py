"""X, formerly Twitter, over API v2."""
