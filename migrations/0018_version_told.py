"""Which organization was told that a platform ends the version of its API that is called: once, however long ago."""


def up(migrator, db):
    db.execute_sql(
        'CREATE TABLE "version_told" ("id" INTEGER NOT NULL PRIMARY KEY, "organization" TEXT NOT NULL, "platform" TEXT '
        'NOT NULL, "pin" TEXT NOT NULL, "told_at" INTEGER NOT NULL, '
        'FOREIGN KEY ("organization") REFERENCES "organization" ("id"))'
    )
    db.execute_sql(
        'CREATE UNIQUE INDEX "version_told_organization_platform_pin" '
        'ON "version_told" ("organization", "platform", "pin")'
    )
