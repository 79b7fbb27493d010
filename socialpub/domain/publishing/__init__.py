"""The publish run of one post: claim, intent, send, lookup and result."""
