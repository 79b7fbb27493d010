"""Server process and database: ownership, fencing, detection of copies, and the clock."""
