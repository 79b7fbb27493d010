"""Scripted and live platforms, and drafts for the rules' tests."""
