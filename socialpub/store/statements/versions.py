"""Who was told that a version of a platform's API ends."""

UNTOLD = """
    SELECT DISTINCT organization FROM account
    WHERE platform = ?1 AND disconnected_at IS NULL
        AND NOT EXISTS (
            SELECT 1 FROM version_told t WHERE t.organization = account.organization AND t.platform = ?1 AND t.pin = ?2
        )
    LIMIT ?3
"""

TELL = "INSERT OR IGNORE INTO version_told (organization, platform, pin, told_at) VALUES (?, ?, ?, ?)"
