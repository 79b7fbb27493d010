"""The server process and its database: ownership, fencing, detection of copies, and the clock."""
