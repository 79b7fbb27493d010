"""Sample migration: a table filled from another, a new column, an index; one transaction."""


def up(migrator, db):
    db.execute_sql("CREATE TABLE label (id INTEGER NOT NULL PRIMARY KEY, post TEXT NOT NULL, text TEXT NOT NULL)")
    db.execute_sql("INSERT INTO label (post, text) SELECT id, status FROM post")
    db.execute_sql("ALTER TABLE post ADD COLUMN labels INTEGER NOT NULL DEFAULT 0")
    db.execute_sql("UPDATE post SET labels = (SELECT count(*) FROM label WHERE label.post = post.id)")
    db.execute_sql("CREATE INDEX post_labels ON post (labels)")
