"""Posts are filed for the search behind their acceptance, and terms too short for trigrams have an index of their own.

`post_search_filed` says up to which number posts are in the index of texts and in that of short terms. The former is
whole when this runs; the latter is filled while the server runs, a hundred posts at a time.

A shelf is what one organization has (profile and platform empty), or one profile on one platform. Its posts stand in
chunks, and `open` are those that do not make a chunk yet. `bits` says in which chunks of a segment a term is.
"""


def up(migrator, db):
    db.execute_sql(
        "CREATE TABLE post_search_filed (id INTEGER PRIMARY KEY, texts INTEGER NOT NULL, terms INTEGER NOT NULL)"
    )
    db.execute_sql("INSERT INTO post_search_filed SELECT 1, coalesce(max(number), 0), 0 FROM post")
    db.execute_sql(
        "CREATE TABLE post_search_shelf (id INTEGER PRIMARY KEY, organization TEXT NOT NULL, profile TEXT NOT NULL, "
        "platform TEXT NOT NULL, chunks INTEGER NOT NULL DEFAULT 0, open TEXT NOT NULL DEFAULT '[]', "
        "UNIQUE (organization, profile, platform))"
    )
    db.execute_sql(
        "CREATE TABLE post_search_chunk (shelf INTEGER NOT NULL, place INTEGER NOT NULL, first INTEGER NOT NULL, "
        "newest INTEGER NOT NULL, numbers TEXT NOT NULL, PRIMARY KEY (shelf, place)) WITHOUT ROWID"
    )
    db.execute_sql(
        "CREATE TABLE post_search_term (shelf INTEGER NOT NULL, segment INTEGER NOT NULL, term TEXT NOT NULL, "
        "bits INTEGER NOT NULL, PRIMARY KEY (shelf, segment, term)) WITHOUT ROWID"
    )
