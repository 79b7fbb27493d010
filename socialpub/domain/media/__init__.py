"""Media files: storage, download, probing."""
