"""The master key as a whole: a new one in place of the old one, and a start without one that is lost."""
