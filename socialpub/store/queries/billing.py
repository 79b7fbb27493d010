"""Subscriptions, and the order of their billing webhooks."""

# Whether a webhook about ?1, sent at ?4, is new: there is no later one of its kind ?2, and no equal one of name ?3.
IS_NEW = """
    SELECT NOT EXISTS (
        SELECT 1 FROM subscription_notice
        WHERE subscription = ?1 AND kind = ?2 AND (said_at > ?4 OR (name = ?3 AND said_at = ?4))
    )
"""

SET_NOTICE = """
    INSERT INTO subscription_notice (organization, subscription, kind, name, said_at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (subscription, name) DO UPDATE SET said_at = excluded.said_at
"""

FIND_SUBSCRIPTION = "SELECT organization, variant, ended FROM subscription WHERE id = ?"

# ?1 id, ?2 organization, ?3 variant, ?4 tier, ?5 ended, ?6 now.
SET_SUBSCRIPTION = """
    INSERT INTO subscription (id, organization, variant, tier, ended, created_at, updated_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)
    ON CONFLICT (id) DO UPDATE SET variant = excluded.variant, tier = excluded.tier, ended = excluded.ended,
        updated_at = excluded.updated_at
"""

FIND_ACTIVE_TIERS = "SELECT tier FROM subscription WHERE organization = ? AND NOT ended"

SET_TIER = "UPDATE organization SET tier = ? WHERE id = ? AND deleted_at IS NULL RETURNING name"
