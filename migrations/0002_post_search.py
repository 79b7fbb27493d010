"""Text search in posts: a trigram index (FTS5) over the casefolded text, filed under `post.number`.

Beside the text, three characters of each owner's id and of the platform, so that a search in one profile does not read
what others wrote. `post_search_order` says by how much `created_at` has ever gone back as `number` went up.
"""


def up(migrator, db):
    db.execute_sql(
        "CREATE VIRTUAL TABLE post_search USING fts5(fold, organization, profile, platform, "
        "tokenize = 'trigram case_sensitive 1', content = '', columnsize = 0)"
    )
    db.execute_sql("CREATE TABLE post_search_order (id INTEGER PRIMARY KEY, disorder INTEGER NOT NULL)")
    db.execute_sql(
        "INSERT INTO post_search (rowid, fold, organization, profile, platform) "
        "SELECT number, text_fold, substr(organization, -3), substr(profile, -3), substr(platform, 1, 3) "
        "FROM post ORDER BY number"
    )
    db.execute_sql(
        "INSERT INTO post_search_order SELECT 1, coalesce(max(newest - created_at), 0) FROM "
        "(SELECT created_at, max(created_at) OVER (PARTITION BY organization ORDER BY number) AS newest FROM post)"
    )
