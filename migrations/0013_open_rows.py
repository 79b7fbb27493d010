"""What is asked every minute, at a start and at each publish has an index: of open rows alone where it is of them."""

OPEN = "WHERE status IN ('queued', 'validated', 'publishing')"


def up(migrator, db):
    db.execute_sql('CREATE INDEX "intent_attempt" ON "intent" ("attempt")')
    db.execute_sql('DROP INDEX "post_open"')
    db.execute_sql(f'CREATE INDEX "post_open" ON "post" (COALESCE("due_at", "scheduled_at", "created_at")) {OPEN}')
    db.execute_sql(f'CREATE INDEX "post_open_account" ON "post" ("account", "number") {OPEN}')
    db.execute_sql('CREATE INDEX "idempotency_open" ON "idempotency" ("batch") WHERE status IS NULL')
    db.execute_sql('CREATE INDEX "job_leased" ON "job" ("epoch") WHERE epoch IS NOT NULL')
    db.execute_sql('CREATE INDEX "media_kept" ON "media" ("organization", "size_bytes") WHERE deleted_at IS NULL')
    db.execute_sql('CREATE INDEX "session_ends_at" ON "session" ("ends_at")')
    db.execute_sql('CREATE INDEX "device_ends_at" ON "device" ("ends_at")')
