"""Shared tools of connectors, independent of any platform."""
