"""Notifications: channels on which people are told, and what they are told."""

STATEMENTS = (
    """
    CREATE TABLE "notification_channel" ("id" TEXT NOT NULL PRIMARY KEY, "organization" TEXT NOT NULL, "profile" TEXT,
    "kind" TEXT NOT NULL, "shown" TEXT NOT NULL, "events" TEXT NOT NULL, "description" TEXT, "active" INTEGER NOT NULL,
    "secret" TEXT NOT NULL, "failing_since" INTEGER, "last_delivery_at" INTEGER, "last_failure_reason" TEXT,
    "created_at" INTEGER NOT NULL, "updated_at" INTEGER NOT NULL, "deleted_at" INTEGER,
    FOREIGN KEY ("organization") REFERENCES "organization" ("id"), FOREIGN KEY ("profile") REFERENCES "profile" ("id"))
    """,
    """
    CREATE INDEX "notification_channel_organization" ON "notification_channel" ("organization")
    """,
    """
    CREATE TABLE "notification" ("number" INTEGER NOT NULL PRIMARY KEY, "id" TEXT NOT NULL, "channel" TEXT NOT NULL,
    "organization" TEXT NOT NULL, "profile" TEXT, "type" TEXT NOT NULL, "cause" TEXT NOT NULL, "data" TEXT NOT NULL,
    "count" INTEGER NOT NULL, "follows" INTEGER NOT NULL, "window_ms" INTEGER NOT NULL, "ends_at" INTEGER NOT NULL,
    "status" TEXT NOT NULL, "attempts" INTEGER NOT NULL, "next_attempt_at" INTEGER, "last_status_code" INTEGER,
    "last_error" TEXT, "created_at" INTEGER NOT NULL, "updated_at" INTEGER NOT NULL,
    FOREIGN KEY ("channel") REFERENCES "notification_channel" ("id"),
    FOREIGN KEY ("organization") REFERENCES "organization" ("id"), FOREIGN KEY ("profile") REFERENCES "profile" ("id"))
    """,
    """
    CREATE UNIQUE INDEX "notification_id" ON "notification" ("id")
    """,
    """
    CREATE INDEX "notification_organization_number" ON "notification" ("organization", "number")
    """,
    """
    CREATE INDEX "notification_channel_cause_number" ON "notification" ("channel", "cause", "number")
    """,
    """
    CREATE INDEX "notification_due" ON "notification" ("channel", "next_attempt_at", "number") WHERE status = 'pending'
    """,
)


def up(migrator, db):
    for statement in STATEMENTS:
        db.execute_sql(statement)
