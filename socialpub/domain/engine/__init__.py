"""The work that nobody waits for: jobs, who does them, what a start finds; and the master key as a whole."""
