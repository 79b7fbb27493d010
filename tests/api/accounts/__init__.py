"""Tests of connecting platform accounts and of their sessions."""
