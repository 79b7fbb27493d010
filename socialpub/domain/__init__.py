"""What socialpub does. Every transaction begins here; nothing here knows HTTP or a platform by name."""
