"""Users, sessions, sign-in, second factor, members and API keys."""
