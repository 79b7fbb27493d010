"""What people are told of what happened, and where: mail, ntfy, Slack, Discord, Telegram."""
