"""Shared parts of Meta's three fake platforms: Graph responses, tokens, lists, containers."""
