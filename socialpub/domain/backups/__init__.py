"""Backups: one file with all data of a server; create, verify, restore."""
