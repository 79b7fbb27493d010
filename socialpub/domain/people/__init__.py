"""Organizations and who may do what in them, how often and how much."""
