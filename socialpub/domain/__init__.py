"""Domain logic. Every transaction starts here; no HTTP, and no platform by name."""
