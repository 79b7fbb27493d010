"""Access: authentication, actions and their audit log, idempotency, rate limits."""
