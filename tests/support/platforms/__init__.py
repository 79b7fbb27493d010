"""Scripted and live fake platforms, calls per platform, and drafts for rule tests."""
