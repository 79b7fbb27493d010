"""What leaves for addresses that users named: when it goes, what became of it, and which addresses may be called."""
