"""The work that nobody waits for: jobs, the threads that do them, and what a start finds."""
