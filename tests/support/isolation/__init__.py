"""Attackers, and how their effect on others is measured."""
