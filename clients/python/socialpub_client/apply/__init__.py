"""Calendars in files: read them, plan what differs from the server, apply the plan."""
