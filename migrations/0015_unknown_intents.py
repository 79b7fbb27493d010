"""Twins whose answers were lost are looked for among the intents whose end nobody knows, and not among all.

The index of kept media begins with no owner: SQLite took it for asset ids of an organization, and read all its media.
What an organization's media amount to has an index of its own, whose condition only that question repeats.
"""


def up(migrator, db):
    db.execute_sql('CREATE INDEX "intent_unknown" ON "intent" ("account") WHERE outcome = \'unknown\'')
    db.execute_sql('DROP INDEX "media_kept"')
    db.execute_sql('CREATE INDEX "media_kept" ON "media" ("size_bytes") WHERE deleted_at IS NULL')
    db.execute_sql(
        'CREATE INDEX "media_held" ON "media" ("organization", "size_bytes") '
        "WHERE deleted_at IS NULL AND size_bytes > 0"
    )
