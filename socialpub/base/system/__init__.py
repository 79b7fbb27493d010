"""The operating system: host, files, sockets, memory, event loops, the one-file binary."""
