"""What happened, for programs: the log of events, and the endpoints that they are sent to."""
