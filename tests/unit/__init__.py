"""Unit tests; the folders mirror socialpub/."""
