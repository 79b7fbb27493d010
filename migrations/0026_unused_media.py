"""Media say when a post needed them last, so that what nothing needs any more is found without looking at the rest."""


def up(migrator, db):
    db.execute_sql('ALTER TABLE "media" ADD COLUMN "used_at" INTEGER NOT NULL DEFAULT 0')
    db.execute_sql('UPDATE "media" SET "used_at" = CAST(strftime(\'%s\', \'now\') AS INTEGER) * 1000')
    db.execute_sql('CREATE INDEX "media_used" ON "media" ("used_at") WHERE deleted_at IS NULL')
