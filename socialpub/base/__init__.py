"""Tools that every room uses. Nothing here knows a post, a table or a route."""
