"""What cursors and media addresses are signed with stands by itself, sealed: the next start makes it of the master key."""


def up(migrator, db):
    db.execute_sql("ALTER TABLE instance ADD COLUMN signing_key TEXT")
    db.execute_sql('CREATE INDEX "idempotency_sealed" ON "idempotency" ("id") WHERE sealed = 1')
