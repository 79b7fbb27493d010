"""The apps that this server is registered as at the platforms, where an owner has typed them in."""


def up(migrator, db):
    db.execute_sql(
        'CREATE TABLE "platform_app" ("id" TEXT NOT NULL PRIMARY KEY, "client_id" TEXT NOT NULL, "secret" TEXT NOT NULL, '
        '"known_at" INTEGER, "created_at" INTEGER NOT NULL, "updated_at" INTEGER NOT NULL)'
    )
