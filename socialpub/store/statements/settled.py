"""What of what rarely changes is kept in memory (`store/settled.py`), and how each change of it is heard of."""

# Of each table the columns that anybody keeps; none named: all. What is counted or noted all the time is not among
# them: nobody keeps when an endpoint was last called.
_KEPT = {
    "instance": ("epoch", "beat", "key_id", "paused"),
    "organization": (),
    "profile": (),
    "account": (
        "number",
        "id",
        "organization",
        "profile",
        "platform",
        "platform_account_id",
        "display_name",
        "status",
        "secret",
        "token_expires_at",
        "ends_at",
        "extra",
        "disconnected_at",
        "attention",
    ),
    "api_key": ("id", "organization", "profile", "digest", "revoked_at"),
    "webhook_endpoint": ("organization", "profile", "events", "active", "deleted_at"),
    "notification_channel": ("organization", "profile", "events", "active", "deleted_at"),
}


def _watch(table: str, name: str, change: str) -> str:
    return (
        f"CREATE TEMP TRIGGER settled_{table}_{name} AFTER {change} ON main.{table} BEGIN SELECT settled_changed(); END"
    )


def _changes(columns: tuple[str, ...]) -> dict[str, str]:
    update = f"UPDATE OF {', '.join(columns)}" if columns else "UPDATE"
    return {"insert": "INSERT", "update": update, "delete": "DELETE"}


WATCH = [_watch(table, name, change) for table, columns in _KEPT.items() for name, change in _changes(columns).items()]
