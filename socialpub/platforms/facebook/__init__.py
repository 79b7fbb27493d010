"""Facebook Pages, over Meta's Graph API."""
