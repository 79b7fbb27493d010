"""Public documentation pages, built from the tables that the code checks with."""
