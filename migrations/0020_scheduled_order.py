"""Scheduled posts are listed by the time they are for: of each account and in each state they stand in that order."""


def up(migrator, db):
    db.execute_sql('DROP INDEX "post_scheduled"')
    db.execute_sql(
        'CREATE INDEX "post_scheduled" ON "post" ("account", "status", "scheduled_at", "id") '
        "WHERE scheduled_at IS NOT NULL"
    )
