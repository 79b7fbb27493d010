"""Tests of webhooks: endpoints, signatures, deliveries and receivers."""
