"""Jobs: leases that are held by their number of claims."""

from socialpub.store.statements.rows import Changes

STANDS = "SELECT 1 FROM job WHERE key = ? AND claims = ?"
# Of each its key and its claims.
FINISH_ALL = Changes(
    """
    DELETE FROM job WHERE key IN (
        SELECT held.key FROM {rows} AS own
        CROSS JOIN job AS held ON held.key = own.column1 AND held.claims = own.column2
    )
    """,
    own=2,
)
AGAIN = "UPDATE job SET visible_at = ?, epoch = NULL WHERE key = ? AND claims = ?"
