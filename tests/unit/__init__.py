"""Tests by room of the program; folders mirror socialpub/."""
