"""Jinja templates and the formatting of values in them."""
