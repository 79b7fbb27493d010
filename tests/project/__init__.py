"""Tests of the repository itself: source rules, documents, packaging, releases."""
