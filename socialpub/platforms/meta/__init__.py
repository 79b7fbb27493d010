"""What the platforms on Meta's Graph APIs share."""
