"""When a post's newest attempt is due, where that is neither its schedule nor its acceptance: after a retry or a wait."""


def up(migrator, db):
    db.execute_sql("ALTER TABLE post ADD COLUMN due_at INTEGER")
    db.execute_sql("UPDATE post SET due_at = next_attempt_at WHERE status = 'validated' AND next_attempt_at IS NOT NULL")
