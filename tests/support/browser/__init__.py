"""Chromium, page checks, screenshots, and servers to look at."""
