"""Tools that connectors share. None of them knows a platform."""
