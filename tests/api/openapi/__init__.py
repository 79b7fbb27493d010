"""Tests of the OpenAPI document against the server."""
