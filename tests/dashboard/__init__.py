"""Tests of the dashboard's pages over HTTP, without a browser."""
