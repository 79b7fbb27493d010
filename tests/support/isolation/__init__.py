"""Attack clients, and measurement of their effect on other organizations."""
