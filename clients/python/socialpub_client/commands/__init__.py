"""The program `socialpub`: commands over the API, and those that installed packages add."""
