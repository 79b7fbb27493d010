"""Tests of the documentation pages that the server delivers."""
