"""Events and notification rows, written in the transaction of their change; list cursors."""
