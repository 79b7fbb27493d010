"""What each platform last said to the versions of its API that it was asked for."""


def up(migrator, db):
    db.execute_sql(
        'CREATE TABLE "version_asked" ("platform" TEXT NOT NULL PRIMARY KEY, "pin" TEXT NOT NULL, "heard" TEXT NOT NULL, '
        '"newer" TEXT, "next_heard" TEXT, "said" TEXT NOT NULL, "asked_at" INTEGER NOT NULL)'
    )
