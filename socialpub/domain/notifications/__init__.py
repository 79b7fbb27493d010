"""Notifications to people: e-mail, ntfy, Slack, Discord, Telegram."""
