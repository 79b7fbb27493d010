"""Job leases, identified by key and number of claims."""

from socialpub.store.queries.bulk import BulkUpdate

IS_CLAIM_VALID = "SELECT 1 FROM job WHERE key = ? AND claims = ?"
# Own values: key and claims.
DELETE_CLAIMED = BulkUpdate(
    """
    DELETE FROM job WHERE key IN (
        SELECT held.key FROM {rows} AS own
        CROSS JOIN job AS held ON held.key = own.column1 AND held.claims = own.column2
    )
    """,
    own=2,
)
RELEASE_CLAIM = "UPDATE job SET visible_at = ?, epoch = NULL WHERE key = ? AND claims = ?"
