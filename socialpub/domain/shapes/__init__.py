"""What requests may carry and what answers and events look like: types, and nothing that happens."""
