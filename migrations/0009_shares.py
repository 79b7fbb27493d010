"""Whose a job is: the upstream that it calls and its organization, so that neither takes all workers."""


def up(migrator, db):
    for column in ("host", "owner"):
        db.execute_sql(f"ALTER TABLE job ADD COLUMN {column} TEXT NOT NULL DEFAULT ''")
    db.execute_sql(
        "UPDATE job SET host = (SELECT platform FROM post WHERE id = job.key),"
        " owner = (SELECT organization FROM post WHERE id = job.key) WHERE key IN (SELECT id FROM post)"
    )
    db.execute_sql("DROP INDEX job_visible_at_lane_key")
    db.execute_sql(
        'CREATE INDEX "job_visible_at_lane_key_host_owner" ON "job" ("visible_at", "lane", "key", "host", "owner")'
    )
