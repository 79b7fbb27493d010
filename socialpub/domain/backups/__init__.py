"""Backups: one file with everything that a server needs to go on, made while it runs, looked through, and put back."""
