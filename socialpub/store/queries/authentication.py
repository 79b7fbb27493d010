"""Authentication of requests, and the check that this server still owns the database."""

# On the writing connection, `data_version` changes with each commit of another process.
FIND_OWNER = "SELECT epoch, beat, key_id, (SELECT data_version FROM pragma_data_version) FROM instance WHERE id = 1"
FIND_MASTER_KEY_ID = "SELECT key_id FROM instance WHERE id = 1"

FIND_KEY_BY_DIGEST = """
    SELECT id, organization, profile, last_used_at, scopes, accounts, expires_at FROM api_key
    WHERE digest = ? AND revoked_at IS NULL
"""
FIND_KEY_EXPIRY = "SELECT expires_at FROM api_key WHERE id = ? AND revoked_at IS NULL"
# The last value is a time: not updated if the last recorded use is later.
TOUCH_KEY = """
    UPDATE api_key SET last_used_at = ?1 WHERE id = ?2 AND (last_used_at IS NULL OR last_used_at <= ?3)
"""

# The user of a dashboard page, with their preferences.
FIND_DASHBOARD_SESSION = """
    SELECT organization.name, user.email, user.zone, session.zone, session.profile, session.proved_at
    FROM session JOIN user ON user.id = session.user JOIN organization ON organization.id = user.organization
    WHERE session.id = ?1 AND user.organization = ?2
"""
