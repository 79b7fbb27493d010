"""Files that are published: kept, fetched, and looked at before anything trusts them."""
