"""SQLite connections: one writer thread, reader threads, file locks and file checks."""
