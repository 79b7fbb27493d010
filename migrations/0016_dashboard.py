"""What the dashboard keeps of who looks at it: time zone, the profile they are in, when they last gave their password,
and the form that was on its way when their session ended.
"""


def up(migrator, db):
    db.execute_sql('ALTER TABLE "user" ADD COLUMN zone TEXT')
    for column in (
        "zone TEXT",
        'profile TEXT REFERENCES "profile" ("id")',
        "proved_at INTEGER NOT NULL DEFAULT 0",
        "kept TEXT",
    ):
        db.execute_sql(f"ALTER TABLE session ADD COLUMN {column}")
    db.execute_sql('UPDATE session SET proved_at = created_at')
