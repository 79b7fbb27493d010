"""The front door: HTTP in, verbs of the domain called, answers out."""
