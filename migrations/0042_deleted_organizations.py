"""When an organization was deleted; null while it exists."""


def up(migrator, db):
    db.execute_sql('ALTER TABLE "organization" ADD COLUMN "deleted_at" INTEGER')
