"""Events and notification rows, written in the transaction of the change they report; cursors of lists."""
