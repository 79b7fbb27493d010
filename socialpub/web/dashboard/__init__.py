"""Pages for people: the docs from the tables, health for machines that watch."""
