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

# What the platforms say to the versions that they are asked for: a row for each platform.
_ASKED = "platform, pin, heard, newer, next_heard, said, asked_at"
KEEP_ASKED = f"INSERT OR REPLACE INTO version_asked ({_ASKED}) VALUES (?, ?, ?, ?, ?, ?, ?)"
ASKED = f"SELECT {_ASKED} FROM version_asked WHERE platform = ?"
ALL_ASKED = f"SELECT {_ASKED} FROM version_asked ORDER BY platform"
