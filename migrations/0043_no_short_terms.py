"""Texts of one or two letters are looked for in the rows: their index goes."""


def up(migrator, db):
    for table in ("term", "chunk", "shelf"):
        db.execute_sql(f"DROP TABLE post_search_{table}")
    db.execute_sql("ALTER TABLE post_search_filed DROP COLUMN terms")
