"""Tests of what calls the API from elsewhere."""
