"""Queries of an organization's rows are restricted to that organization."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from socialpub.store.schema import models
from socialpub.store.schema.models import find_row, find_row_where, find_rows, get_row
from tests.support.program_source import PACKAGE, find_modules, parse_module

OWNED = {
    "Account", "ApiKey", "Attempt", "AuditEntry", "AuthorizationCode", "Batch", "ConnectAttempt", "Device", "Event",
    "RemovedUser",
    "IdempotencyRecord",
    "Intent", "Invitation", "Media", "Notification", "NotificationChannel", "UnacknowledgedRequest", "Post", "Profile",
    "RecoveryCode",
    "Session", "Usage",
    "User",
}  # fmt: skip
TABLES = {getattr(models, name)._meta.table_name for name in OWNED}
STATEMENT = re.compile(r"\b(?:FROM|JOIN|UPDATE)\s+(\w+)")
STATEMENTS = {
    module: {
        name
        for name, text in vars(import_module(f"socialpub.store.queries.{module}")).items()
        if isinstance(text, str) and TABLES & set(STATEMENT.findall(text))
    }
    for module in sorted(path.stem for path in (PACKAGE / "store" / "queries").glob("[!_]*.py"))
}
"""By their file, the constants that read or change an organization's rows."""
READERS = {reader.__name__ for reader in (find_row, find_row_where, find_rows, get_row)}
WHOSE = {"organization", "profile", "scope", "Scope"}

ROOMS = ("store", "context", "server", "events", "background", "operations", "publishing")
"""They serve no caller: what they look up by its id, a job of this server or a row in hand has named."""

KNOWN = {
    "domain/post_states": {
        "_build_update", "_continue_thread", "_find_request", "_start_piece", "list_later_pieces",
    },
    "access/audit_log": {"purge"},
    "access/audit_log_query": {"_select_rows"},
    "access/authentication": {"_find_key", "check_key", "list_csrf_tokens"},
    "access/idempotency": {"_find_record", "purge", "store_response"},
    "access/lost_responses": {"_delete_delivered", "delete_expired", "find_undelivered"},
    "accounts/accounts": {"_select_cancelable", "count_uncanceled", "is_revoked"},
    "accounts/api_versions": {"notify_all"},
    "accounts/attention": {"clear", "save"},
    "accounts/connect": {"_delete_choices", "_is_login_shared", "_save_choices", "purge"},
    "accounts/revocation": {"_is_in_use"},
    "accounts/token_refresh": {"_emit_warnings", "_select_due", "_select_ids"},
    "accounts/tokens": {
        "_attribute_refusal", "_get_connected", "_release_claim", "_save_attention", "_update_unless_replaced",
        "emit_expiring", "emit_revoked", "mark_revoked", "record_refusal", "release_all",
    },
    "accounts/version_checks": {"_pick_account"},
    "notifications/channels": {"end_messages_if_deleted"},
    "notifications/notification_outbox": {"_is_moved", "_record_attempt", "find_due", "find_next_due"},
    "webhooks/webhook_outbox": {"find_due"},
    "identity/key_expiry": {"_find_due", "_notify_batch"},
    "identity/members": {"_withdraw_invitations"},
    "identity/oauth_grants": {"exchange", "find_code", "purge"},
    "identity/sessions": {"_register_device", "end", "end_all", "find_device", "start"},
    "identity/signin": {"_load_login"},
    "identity/totp": {"delete", "is_required", "reset", "use_code"},
    "identity/users": {"check_new", "create_setup_token", "set_password"},
    "media/files": {"_find_referenced", "has_references"},
    "media/library": {
        "_delete_asset", "_delete_if_unused", "_delete_unused_batch", "find_uses",
        "delete_unused", "extend_retention", "find_public", "load_assets",
    },
    "posts/batches": {"is_finished", "load_body", "load_finished_body"},
    "posts/calendar": {"_load_posts"},
    "posts/post_actions": {"_find_unknown"},
    "posts/post_log": {"_load_filtered"},
    "posts/post_history": {"_count_recent", "find_repeated"},
    "posts/request_lookup": {"check_repeats", "load_connected"},
}  # fmt: skip
"""Each was looked at: it gets ids that its caller has found within a scope, those of the caller's own session, key or
request, or rows for this server's own upkeep. A new one goes here only if that is true of it."""


def test_every_query_of_an_organizations_rows_names_whose_they_are() -> None:
    found: dict[str, set[str]] = {}
    for module in find_modules("|".join([*OWNED, "store.queries"])):
        place = Path(module).with_suffix("").parts
        if not set(ROOMS) & set(place[:-1]):
            for name in unscoped(parse_module(module)):
                found.setdefault("/".join(place[-2:]), set()).add(name)
    assert found == KNOWN


IMPORT = "from socialpub.store.queries import authentication, events as told, publish_runs\n\n"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(post): return Post.select().where(Post.id == post)", ["f"]),
        ("def f(post, o): return Post.select().where(Post.id == post, Post.organization == o)", []),
        ("def f(scope): return narrowed(scope, Post.select())", []),
        ("async def f(): Media.update(deleted_at=1).execute()", ["f"]),
        ("class A:\n    def f(self): return Account.delete()", ["f"]),
        ("def f(post): return find_row(Post, post)", ["f"]),
        ("def f(post): return get_row(Post, post)", ["f"]),
        ("def f(posts): return find_rows(Post, Post.id.in_(posts))", ["f"]),
        ("def f(post): return find_row_where(Post, Post.id == post)", ["f"]),
        ("def f(): return Instance.select()", []),
        (f"{IMPORT}def f(post): return sql.fetch_one(publish_runs.FIND_OPEN_INTENT, (post,))", ["f"]),
        (
            f"{IMPORT}def f(scope, post):"
            " return sql.fetch_one(publish_runs.FIND_OPEN_INTENT, (scope.organization, post))",
            [],
        ),
        (f"{IMPORT}def f(): return sql.fetch_one(told.FIND_PAGE_REACH)", ["f"]),
        (f"{IMPORT}def f(): return sql.fetch_one(authentication.FIND_OWNER)", []),
    ],
)
def test_a_query_that_names_nobody_is_found(source: str, names: list[str]) -> None:
    assert list(unscoped(ast.parse(source))) == names


def unscoped(tree: ast.Module) -> Iterator[str]:
    """The functions that query an organization's rows and name neither organization nor profile nor scope."""
    members = [member for node in tree.body if isinstance(node, ast.ClassDef) for member in node.body]
    statements = _statements(tree)
    for node in (*tree.body, *members):
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and _queries(node, statements)
            and not _names(node) & WHOSE
        ):
            yield node.name


def _statements(tree: ast.Module) -> set[str]:
    """The statements about an organization's rows, by the names that a module has for them."""
    imports = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    modules = [each for node in imports if node.module == "socialpub.store.queries" for each in node.names]
    return {f"{each.asname or each.name}.{name}" for each in modules for name in STATEMENTS[each.name]}


def _queries(function: ast.AST, statements: set[str]) -> bool:
    nodes = list(ast.walk(function))
    return any(_is_owned(table) for node in nodes for table in _tables(node)) or any(
        isinstance(node, ast.Attribute) and ast.unparse(node) in statements for node in nodes
    )


def _tables(node: ast.AST) -> list[ast.expr]:
    """What an expression reads or changes: `Post.select()`, `find_row(Post, id)`."""
    if isinstance(node, ast.Attribute) and node.attr in ("select", "update", "delete"):
        return [node.value]
    reads = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in READERS
    return node.args[:1] if isinstance(node, ast.Call) and reads else []


def _is_owned(table: ast.expr) -> bool:
    return isinstance(table, ast.Name) and table.id in OWNED


def _names(function: ast.AST) -> set[str]:
    nodes = list(ast.walk(function))
    return (
        {node.id for node in nodes if isinstance(node, ast.Name)}
        | {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        | {node.arg for node in nodes if isinstance(node, ast.arg)}
    )
