"""Batches and posts as users see them: accept, list, reschedule, cancel and settle."""
