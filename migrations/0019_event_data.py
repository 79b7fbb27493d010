"""A post's events do not repeat what the post's row tells; those of before stay as they are, and are read alike.

Nothing asks for the events of one post any more.
"""


def up(migrator, db):
    db.execute_sql('DROP INDEX "event_post_number"')
