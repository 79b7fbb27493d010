"""Drafts."""

# ?1 organization, ?2 profile or null, ?3 JSON list of statuses ([]: all), ?4 and ?5 time and id to continue after,
# ?6 limit, ?7 JSON list of the only accounts that a draft may name, or null.
FIND_PAGE = """
    SELECT id, length(content) FROM draft
    WHERE organization = ?1 AND (?2 IS NULL OR profile = ?2)
        AND (?3 = '[]' OR status IN (SELECT value FROM json_each(?3)))
        AND (?4 IS NULL OR (created_at, id) < (?4, ?5))
        AND (?7 IS NULL OR NOT EXISTS (
            SELECT 1 FROM json_each(draft.content, '$.targets') AS target
            WHERE target.value ->> 'accountId' NOT IN (SELECT value FROM json_each(?7))
        ))
    ORDER BY created_at DESC, id DESC LIMIT ?6
"""
# Unpublished drafts with a time in [?3, ?4), earliest first: (organization, profile or null, from, to, at most).
FIND_SCHEDULED = """
    SELECT id, title, substr(content ->> '$.text', 1, 200), status, scheduled_at, content ->> '$.targets'
    FROM draft
    WHERE organization = ?1 AND (?2 IS NULL OR profile = ?2)
        AND status <> 'published' AND scheduled_at IS NOT NULL AND scheduled_at >= ?3 AND scheduled_at < ?4
    ORDER BY scheduled_at LIMIT ?5
"""
COUNT_OPEN = "SELECT count(*) FROM draft WHERE organization = ? AND status <> 'published'"

# Those of the media in a JSON list that the organization has.
INSERT_MEDIA = """
    INSERT INTO draft_media (draft, media)
    SELECT ?1, media.id FROM json_each(?2) AS named CROSS JOIN media ON media.id = named.value
    WHERE +media.organization = ?3 AND media.deleted_at IS NULL
"""

# Approvals of drafts with a file whose description has changed.
END_APPROVALS = """
    UPDATE draft SET status = 'draft', approved_digest = NULL
    WHERE status = 'approved' AND id IN (SELECT draft FROM draft_media WHERE media = ?)
"""

# The drafts in a JSON list; the media first, which refer to them.
DELETE_MEDIA = "DELETE FROM draft_media WHERE draft IN (SELECT value FROM json_each(?))"
DELETE = "DELETE FROM draft WHERE id IN (SELECT value FROM json_each(?))"
DELETE_OLD_PUBLISHED = """
    DELETE FROM draft WHERE id IN (
        SELECT id FROM draft WHERE organization = ?1 AND status = 'published'
        ORDER BY created_at DESC, id DESC LIMIT -1 OFFSET ?2
    )
"""
