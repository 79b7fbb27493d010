"""Headless Chromium, page checks, screenshots, and servers prepared for browser tests."""
