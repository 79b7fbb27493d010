"""Shared parts of the dashboard's pages: layout, labels, form parsing."""
