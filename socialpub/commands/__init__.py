"""Command line of the operator."""
