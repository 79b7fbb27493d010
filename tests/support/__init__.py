"""Helpers that tests share; no test imports from another test's file."""
