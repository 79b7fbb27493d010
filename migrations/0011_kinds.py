"""Due jobs are looked for by their kind: the backlog of one kind does not stand in the way of another."""


def up(migrator, db):
    db.execute_sql("DROP INDEX job_visible_at_lane_key_host_owner")
    db.execute_sql(
        'CREATE INDEX "job_kind_visible_at_key_lane_host_owner"'
        ' ON "job" ("kind", "visible_at", "key", "lane", "host", "owner")'
    )
