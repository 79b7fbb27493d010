"""Tests of drafts: writing, approval and its end, links, publishing."""
