"""Tests of users and their sessions."""
