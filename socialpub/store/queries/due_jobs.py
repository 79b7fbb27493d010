"""Due jobs, and claiming them as leases."""

# The first due jobs of a kind, from the index by kind and time, except those of these groups, keys, hosts and owners.
FIND_DUE = """
    SELECT json_group_array(json_array(key, claims, serial_group, host, owner)) FROM (
        SELECT key, claims, serial_group, host, owner FROM job
        WHERE kind = ?1 AND visible_at <= ?2
            AND serial_group NOT IN (SELECT value FROM json_each(?3)) AND key NOT IN (SELECT value FROM json_each(?4))
            AND host NOT IN (SELECT value FROM json_each(?5)) AND owner NOT IN (SELECT value FROM json_each(?6))
        ORDER BY visible_at, key LIMIT ?7
    )
"""
# Whether a job of these kinds is due, and the next due time.
FIND_NEXT_DUE = """
    SELECT
        max(EXISTS (SELECT 1 FROM job WHERE job.kind = known.value AND job.visible_at <= ?2)),
        min((SELECT min(job.visible_at) FROM job WHERE job.kind = known.value AND job.visible_at > ?2))
    FROM json_each(?1) AS known
"""

# Keys of the jobs in `[[key, claims], …]` that have been neither claimed nor moved since they were read.
FIND_CLAIMABLE = """
    SELECT json_group_array(job.key) FROM json_each(?1) AS wanted
    CROSS JOIN job ON job.key = wanted.value ->> 0
    WHERE job.claims = wanted.value ->> 1 AND job.visible_at <= ?2
"""
CLAIM = """
    UPDATE job SET visible_at = ?, claims = claims + 1, epoch = ? WHERE key IN (SELECT value FROM json_each(?))
"""
RENEW_LEASES = "UPDATE job SET visible_at = ? WHERE key IN (SELECT value FROM json_each(?)) AND epoch = ?"

# When posts were due: not `due_at`, which is also the time of the next check of a prepared upload. A later piece of a
# thread is due when the one before it is published.
FIND_POST_TIMES = """
    SELECT json_group_object(id, coalesce(next_attempt_at, iif(thread_of IS NULL, scheduled_at, NULL))) FROM post
    WHERE id IN (SELECT value FROM json_each(?))
"""
