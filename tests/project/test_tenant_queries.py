"""Every query of an organization's rows names whose they are, or is known to work on a row that was found that way."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from socialpub.store.schema import models
from socialpub.store.schema.models import find_row, find_row_where, find_rows, get_row

ROOT = Path(__file__).parents[2] / "socialpub"
OWNED = {
    "Account", "ApiKey", "Attempt", "AuditEntry", "Batch", "ConnectAttempt", "Device", "Event", "RemovedUser",
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
    for module in sorted(path.stem for path in (ROOT / "store" / "queries").glob("[!_]*.py"))
}
"""By their file, the constants that read or change an organization's rows."""
READERS = {reader.__name__ for reader in (find_row, find_row_where, find_rows, get_row)}
WHOSE = {"organization", "profile", "scope", "Scope"}

ROOMS = ("store", "core", "engine", "publishing")
"""They serve no caller: what they look up by its id, a job of this server or a row in hand has named."""

KNOWN = {
    "accounts/accounts": {"is_revoked", "to_cancel", "_waiting"},
    "accounts/attention": {"remember", "clear"},
    "accounts/connect": {"_save_choices", "purge", "_is_shared"},
    "accounts/grants": {"_is_used"},
    "accounts/renewal": {"_due", "_tell_all", "_ids"},
    "accounts/tokens": {
        "_row", "_begun", "_release", "release_all", "_blamed", "_count", "_write_back", "_store", "mark_revoked",
        "tell_expiring", "tell_revoked",
    },
    "accounts/canary": {"_somebody"},
    "accounts/versions": {"tell_all"},
    "media/files": {"are_named", "_needed"},
    "media/library": {"public", "assets_of", "used", "forget_unused", "_forget_unused", "_forget_one", "_forget"},
    "notifications/outbox": {"_record", "look", "soonest"},
    "people/actlog": {"_found"},
    "people/audit": {"purge"},
    "people/limits": {"_find", "keep", "purge"},
    "people/members": {"_withdraw_all_of"},
    "people/sessions": {"begin", "end", "end_all", "device_of", "_remember"},
    "people/signin": {"_known"},
    "people/tenancy": {"_find_key", "key_is_valid", "csrf_tokens"},
    "people/totp": {"reset", "forget", "is_wanted", "spend"},
    "people/users": {"set_password", "offer_setup"},
    "posts/agenda": {"_posts"},
    "posts/accept": {"_check_new"},
    "posts/changes": {"_sent_ms"},
    "posts/batches": {"batch_body", "ended_body", "has_ended"},
    "posts/lookup": {"connected"},
    "posts/postlog": {"_filtered"},
    "posts/preflight": {"_recent", "posted_before"},
    "posts/unheard": {"find", "_forget", "purge"},
    "webhooks/deliver": {"look"},
}  # fmt: skip
"""Each was looked at: it gets ids that its caller has found within a scope, those of the caller's own session, key or
request, or rows for this server's own upkeep. A new one goes here only if that is true of it."""


def test_every_query_of_an_organizations_rows_names_whose_they_are() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        place = path.relative_to(ROOT).with_suffix("").parts
        if not set(ROOMS) & set(place[:-1]):
            for name in unscoped(ast.parse(path.read_text(encoding="utf-8"))):
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
