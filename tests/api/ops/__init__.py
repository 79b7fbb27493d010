"""Tests for operators: metrics, readiness and tracing."""
