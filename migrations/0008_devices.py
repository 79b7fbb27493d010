"""Browsers that have signed in before: guesses from elsewhere do not slow them down."""


def up(migrator, db):
    db.execute_sql(
        "CREATE TABLE device ("
        "id TEXT NOT NULL PRIMARY KEY, "
        "user TEXT NOT NULL REFERENCES user (id), "
        "created_at INTEGER NOT NULL, "
        "ends_at INTEGER NOT NULL)"
    )
    db.execute_sql("CREATE INDEX device_user ON device (user)")
