"""Counts for `/metrics`, from indexes that contain only open rows, up to COUNT_MAX."""

from socialpub.store.queries.maintenance import DUE_AT, IS_OPEN, IS_WAITING_PIECE

COUNT_MAX = 10_000  # larger counts are reported as this number

FIND_OLDEST_DUE = f"SELECT min({DUE_AT}) FROM post WHERE {IS_OPEN} AND NOT {IS_WAITING_PIECE}"
COUNT_DUE_JOBS = f"SELECT count(*) FROM (SELECT 1 FROM job WHERE kind = ?1 AND visible_at <= ?2 LIMIT {COUNT_MAX})"
COUNT_JOBS = f"SELECT count(*) FROM (SELECT 1 FROM job WHERE kind = ?1 LIMIT {COUNT_MAX})"
COUNT_PENDING_DELIVERIES = f"""
    SELECT coalesce(sum((
        SELECT count(*) FROM (
            SELECT 1 FROM webhook_delivery
            WHERE webhook_delivery.endpoint = webhook_endpoint.id AND status = 'pending' LIMIT {COUNT_MAX}
        )
    )), 0) FROM webhook_endpoint
"""
COUNT_PENDING_NOTIFICATIONS = f"""
    SELECT coalesce(sum((
        SELECT count(*) FROM (
            SELECT 1 FROM notification
            WHERE notification.channel = notification_channel.id AND status = 'pending' LIMIT {COUNT_MAX}
        )
    )), 0) FROM notification_channel
"""
COUNT_ACCOUNTS = """
    SELECT platform, status, count(*), min(ends_at) FROM account
    WHERE disconnected_at IS NULL GROUP BY platform, status
"""
