"""The operator's door: the command line."""
