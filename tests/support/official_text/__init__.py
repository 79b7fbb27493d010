"""Text parsing results of the platforms' official libraries, and sample texts for them."""
