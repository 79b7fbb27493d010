"""Media files: records, storage, download and probing."""
