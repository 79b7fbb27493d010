"""Organizations: profiles, billing, and resolution of names."""
