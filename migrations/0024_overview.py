"""The overview finds what failed of late without looking at what did not."""


def up(migrator, db):
    for owner in ("organization", "profile"):
        db.execute_sql(
            f'CREATE INDEX "post_{owner}_troubled" ON "post" ("{owner}", "updated_at") '
            "WHERE status IN ('failed', 'rejected')"
        )
