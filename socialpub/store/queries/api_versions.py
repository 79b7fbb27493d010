"""Notices about the end of a platform's API version, and the checks of the versions."""

FIND_UNNOTIFIED = """
    SELECT DISTINCT organization FROM account
    WHERE platform = ?1 AND disconnected_at IS NULL
        AND NOT EXISTS (
            SELECT 1 FROM version_told t WHERE t.organization = account.organization AND t.platform = ?1 AND t.pin = ?2
        )
    LIMIT ?3
"""

INSERT_NOTICE = "INSERT OR IGNORE INTO version_told (organization, platform, pin, told_at) VALUES (?, ?, ?, ?)"

# The results of the version checks, one row per platform.
_CHECK_COLUMNS = "platform, pin, heard, newer, next_heard, said, asked_at"
SET_CHECK = f"INSERT OR REPLACE INTO version_asked ({_CHECK_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"
FIND_CHECK = f"SELECT {_CHECK_COLUMNS} FROM version_asked WHERE platform = ?"
FIND_ALL_CHECKS = f"SELECT {_CHECK_COLUMNS} FROM version_asked ORDER BY platform"
