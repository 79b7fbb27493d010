"""Tests of the event log and its types."""
