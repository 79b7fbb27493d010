"""Webhooks: endpoints, deliveries, and the calls that were made. What was emitted before is delivered to nobody."""

STATEMENTS = (
    """
    CREATE TABLE "webhook_endpoint" ("id" TEXT NOT NULL PRIMARY KEY, "organization" TEXT NOT NULL, "profile" TEXT, "url"
    TEXT NOT NULL, "events" TEXT NOT NULL, "description" TEXT, "active" INTEGER NOT NULL, "secret" TEXT NOT NULL,
    "previous_secret" TEXT, "previous_until" INTEGER, "failing_since" INTEGER, "last_delivery_at" INTEGER,
    "last_failure_reason" TEXT, "created_at" INTEGER NOT NULL, "updated_at" INTEGER NOT NULL, "deleted_at" INTEGER,
    FOREIGN KEY ("organization") REFERENCES "organization" ("id"), FOREIGN KEY ("profile") REFERENCES "profile" ("id"))
    """,
    """
    CREATE INDEX "webhook_endpoint_organization" ON "webhook_endpoint" ("organization")
    """,
    """
    CREATE TABLE "webhook_delivery" ("number" INTEGER NOT NULL PRIMARY KEY, "id" TEXT NOT NULL, "endpoint" TEXT NOT
    NULL, "organization" TEXT NOT NULL, "profile" TEXT, "event" INTEGER NOT NULL, "type" TEXT NOT NULL, "post" TEXT,
    "status" TEXT NOT NULL, "attempts" INTEGER NOT NULL, "tries" INTEGER NOT NULL, "next_attempt_at" INTEGER,
    "last_status_code" INTEGER, "last_error" TEXT, "created_at" INTEGER NOT NULL, "updated_at" INTEGER NOT NULL, FOREIGN
    KEY ("endpoint") REFERENCES "webhook_endpoint" ("id"), FOREIGN KEY ("organization") REFERENCES "organization"
    ("id"), FOREIGN KEY ("profile") REFERENCES "profile" ("id"), FOREIGN KEY ("event") REFERENCES "event" ("number"))
    """,
    """
    CREATE UNIQUE INDEX "webhook_delivery_id" ON "webhook_delivery" ("id")
    """,
    """
    CREATE INDEX "webhook_delivery_event" ON "webhook_delivery" ("event")
    """,
    """
    CREATE INDEX "webhook_delivery_organization_number" ON "webhook_delivery" ("organization", "number")
    """,
    """
    CREATE INDEX "webhook_delivery_endpoint_status_number" ON "webhook_delivery" ("endpoint", "status", "number")
    """,
    """
    CREATE INDEX "webhook_delivery_due" ON "webhook_delivery" ("endpoint", "next_attempt_at", "number") WHERE status =
    'pending'
    """,
    """
    CREATE TABLE "webhook_attempt" ("id" TEXT NOT NULL PRIMARY KEY, "delivery" INTEGER NOT NULL, "started_at" INTEGER
    NOT NULL, "duration_ms" INTEGER NOT NULL, "status_code" INTEGER, "error" TEXT, "response_body" TEXT, FOREIGN KEY
    ("delivery") REFERENCES "webhook_delivery" ("number"))
    """,
    """
    CREATE INDEX "webhook_attempt_delivery" ON "webhook_attempt" ("delivery")
    """,
)


def up(migrator, db):
    for statement in STATEMENTS:
        db.execute_sql(statement)
