"""Tests of the `socialpub` commands, run in the test's process or as processes."""
