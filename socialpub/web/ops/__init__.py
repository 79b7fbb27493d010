"""Endpoints for machines: health checks, metrics, OAuth client metadata."""
