"""What `/metrics` reads: off the ends of indexes that hold only what is open, and never further than it counts."""

from socialpub.store.statements.sweeps import DUE, OPEN

MOST = 10_000  # counted of anything: more is told as this many

OLDEST_DUE = f"SELECT min({DUE}) FROM post WHERE {OPEN}"
JOBS_DUE = f"SELECT count(*) FROM (SELECT 1 FROM job WHERE kind = ?1 AND visible_at <= ?2 LIMIT {MOST})"
JOBS_WAITING = f"SELECT count(*) FROM (SELECT 1 FROM job WHERE kind = ?1 LIMIT {MOST})"
DELIVERIES_PENDING = f"""
    SELECT coalesce(sum((
        SELECT count(*) FROM (
            SELECT 1 FROM webhook_delivery
            WHERE webhook_delivery.endpoint = webhook_endpoint.id AND status = 'pending' LIMIT {MOST}
        )
    )), 0) FROM webhook_endpoint
"""
NOTIFICATIONS_PENDING = f"""
    SELECT coalesce(sum((
        SELECT count(*) FROM (
            SELECT 1 FROM notification
            WHERE notification.channel = notification_channel.id AND status = 'pending' LIMIT {MOST}
        )
    )), 0) FROM notification_channel
"""
ACCOUNTS = """
    SELECT platform, status, count(*), min(ends_at) FROM account
    WHERE disconnected_at IS NULL GROUP BY platform, status
"""
