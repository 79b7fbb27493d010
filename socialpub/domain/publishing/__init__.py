"""One target on its way to its platform, and what is known of it at every step."""
