"""Background work: jobs, periodic tasks, retention, and recovery at a start."""
