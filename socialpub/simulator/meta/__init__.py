"""What Meta's three fake platforms share: the shape of Graph's answers, tokens, lists, and the life of containers."""
