"""Access to the domain: authentication, actions and their audit log, idempotency, rate limits."""
