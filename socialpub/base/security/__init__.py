"""Encryption, the master key file and private files."""
