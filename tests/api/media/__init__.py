"""Tests of media: uploads, fetched URLs, variants and costs."""
