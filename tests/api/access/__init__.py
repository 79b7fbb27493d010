"""Tests of actions, the audit log, log lines and cache invalidation."""
