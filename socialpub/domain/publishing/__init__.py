"""Publishing of one target: claim, prepare, send, settle."""
