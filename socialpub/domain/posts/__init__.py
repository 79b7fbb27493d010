"""Batches and posts as users see them: accepted, listed, moved, canceled, settled."""
