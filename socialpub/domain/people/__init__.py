"""Organizations, members, API keys, sign-in, rate limits and quotas."""
