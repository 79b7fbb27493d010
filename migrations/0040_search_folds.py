"""Texts are searched normalized (`store/folding.py`), so those whose fold differs are folded and filed anew.

Most texts of ASCII alone stay. The index of short terms is filled while the server runs, as after 0017. On a million
texts that change it takes some minutes, and the log tells how far it is.
"""

import logging

from socialpub.store.folding import fold_of

log = logging.getLogger("socialpub.store")
PART = 10_000

# Posts after ?1 up to ?2 that have a character beyond ASCII.
CANDIDATES = """
    SELECT number, text, text_fold FROM post
    WHERE number > ? AND number <= ? AND (length(CAST(text AS BLOB)) <> length(text) OR text_fold <> '')
"""
_FILED = """
    SELECT number, CASE text_fold WHEN '' THEN lower(text) ELSE text_fold END,
        substr((SELECT id FROM organization WHERE number = post.organization), -3),
        substr((SELECT id FROM profile WHERE number = post.profile), -3),
        substr(platform, 1, 3)
    FROM post WHERE number = ?1 AND number <= (SELECT texts FROM post_search_filed)
"""
UNFILE = "INSERT INTO post_search (post_search, rowid, fold, organization, profile, platform) " + _FILED.replace(
    "SELECT number", "SELECT 'delete', number", 1
)
FILE = "INSERT INTO post_search (rowid, fold, organization, profile, platform) " + _FILED
SHORT_TERMS = (
    "DELETE FROM post_search_term",
    "DELETE FROM post_search_chunk",
    "DELETE FROM post_search_shelf",
    "UPDATE post_search_filed SET terms = 0",
)


def up(migrator, db):
    last = db.execute_sql("SELECT coalesce(max(number), 0) FROM post").fetchone()[0]
    changed = 0
    for after in range(0, last, PART):
        for number, text, former in db.execute_sql(CANDIDATES, (after, after + PART)).fetchall():
            fold, lower = fold_of(text), text.lower()
            if (fold or lower) != (former or lower):
                db.execute_sql(UNFILE, (number,))
                db.execute_sql("UPDATE post SET text_fold = ? WHERE number = ?", (fold, number))
                db.execute_sql(FILE, (number,))
                changed += 1
        if last > PART:
            log.info("search: the texts of %d of %d posts are looked at", min(after + PART, last), last)
    if changed:
        for statement in SHORT_TERMS:
            db.execute_sql(statement)
