"""Tests of a running server through its HTTP API, one folder for each area."""
