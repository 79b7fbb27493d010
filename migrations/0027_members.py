"""Invitations, the names of members who were removed, and where each session signed in from."""


def up(migrator, db):
    db.execute_sql(
        'CREATE TABLE "invitation" ("id" TEXT NOT NULL PRIMARY KEY, '
        '"organization" TEXT NOT NULL REFERENCES "organization" ("id"), "email" TEXT NOT NULL, "role" TEXT NOT NULL, '
        '"digest" TEXT NOT NULL, "invited_by" TEXT NOT NULL REFERENCES "user" ("id"), '
        '"created_at" INTEGER NOT NULL, "ends_at" INTEGER NOT NULL)'
    )
    db.execute_sql('CREATE INDEX "invitation_organization" ON "invitation" ("organization")')
    db.execute_sql('CREATE UNIQUE INDEX "invitation_digest" ON "invitation" ("digest")')
    db.execute_sql('CREATE INDEX "invitation_invited_by" ON "invitation" ("invited_by")')
    db.execute_sql('CREATE INDEX "invitation_ends_at" ON "invitation" ("ends_at")')
    db.execute_sql(
        'CREATE TABLE "former_user" ("id" TEXT NOT NULL PRIMARY KEY, '
        '"organization" TEXT NOT NULL REFERENCES "organization" ("id"), "email" TEXT NOT NULL, '
        '"removed_at" INTEGER NOT NULL)'
    )
    db.execute_sql('CREATE INDEX "former_user_organization" ON "former_user" ("organization")')
    db.execute_sql('CREATE INDEX "former_user_removed_at" ON "former_user" ("removed_at")')
    db.execute_sql("ALTER TABLE session ADD COLUMN address TEXT NOT NULL DEFAULT ''")
    db.execute_sql("ALTER TABLE session ADD COLUMN agent TEXT NOT NULL DEFAULT ''")
