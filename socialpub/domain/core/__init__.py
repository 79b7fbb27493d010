"""What every room of the domain stands on: the running service, the states of a post, events, whose turn it is."""
