"""Tests of notification channels and their messages."""
