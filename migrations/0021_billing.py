"""Subscriptions at Lemon Squeezy, and the newest notice of each kind: what is older, or comes again, changes nothing."""

STATEMENTS = (
    """
    CREATE TABLE "subscription" ("id" TEXT NOT NULL PRIMARY KEY, "organization" TEXT NOT NULL, "variant" TEXT NOT NULL,
    "tier" TEXT NOT NULL, "ended" INTEGER NOT NULL, "created_at" INTEGER NOT NULL, "updated_at" INTEGER NOT NULL,
    FOREIGN KEY ("organization") REFERENCES "organization" ("id"))
    """,
    """
    CREATE INDEX "subscription_organization" ON "subscription" ("organization")
    """,
    """
    CREATE TABLE "subscription_notice" ("id" INTEGER NOT NULL PRIMARY KEY, "organization" TEXT NOT NULL, "subscription"
    TEXT NOT NULL, "kind" TEXT NOT NULL, "name" TEXT NOT NULL, "said_at" INTEGER NOT NULL,
    FOREIGN KEY ("organization") REFERENCES "organization" ("id"))
    """,
    """
    CREATE UNIQUE INDEX "subscription_notice_subscription_name" ON "subscription_notice" ("subscription", "name")
    """,
)


def up(migrator, db):
    for statement in STATEMENTS:
        db.execute_sql(statement)
