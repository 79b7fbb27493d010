"""/v1 handlers by resource: who, parse, do, answer."""
