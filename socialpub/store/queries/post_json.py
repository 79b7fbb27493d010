"""Posts as API JSON, built by SQLite: no column becomes a Python value.

`PostBody` and `PostDetail` describe the result; a test compares them. Ids and enum values need no quoting, and JSON
columns are embedded unchanged.
"""

from __future__ import annotations

from typing import NamedTuple

from socialpub.store.queries.id_columns import select_column, select_number


class _JsonExpression(NamedTuple):
    """A JSON value in SQLite's `printf`: its format, and the expressions for it."""

    form: str
    values: tuple[str, ...]

    @property
    def sql(self) -> str:
        return f"printf('{self.form}', {', '.join(self.values)})"


def _quote_word(column: str) -> _JsonExpression:
    """Return an id or an enum value as a JSON string."""
    return _JsonExpression('"%s"', (column,))


def _quote_text(column: str) -> _JsonExpression:
    return _JsonExpression("%s", (f"json_quote({column})",))


def _format_number(column: str) -> _JsonExpression:
    return _JsonExpression("%s", (f"coalesce({column}, 'null')",))


def _format_time(column: str) -> _JsonExpression:
    """Return epoch milliseconds in the format of `runtime.format_iso`."""
    form = '"%Y-%m-%dT%H:%M:%fZ"'
    return _JsonExpression("%s", (f"coalesce(strftime('{form}', {column} / 1000.0, 'unixepoch'), 'null')",))


def _embed_json(column: str) -> _JsonExpression:
    """Return a JSON column, or null if it is empty.

    The statement fails if a damaged row has invalid JSON.
    """
    return _JsonExpression("%s", (f"iif({column} <> '', json({column}), 'null')",))


def _build_object(fields: dict[str, _JsonExpression], *rest: _JsonExpression) -> _JsonExpression:
    """Return a JSON object; `rest` follows its fields and brings its own commas."""
    form = ",".join(f'"{name}":{expression.form}' for name, expression in fields.items())
    return _JsonExpression(
        "{" + form + "".join(expression.form for expression in rest) + "}",
        tuple(value for expression in (*fields.values(), *rest) for value in expression.values),
    )


_ACCOUNT_FIELDS = {
    "id": _quote_word("account.id"),
    "platform": _quote_word("account.platform"),
    "platformAccountId": _quote_text("account.platform_account_id"),
    "displayName": _quote_text("account.display_name"),
}
_POST_FIELDS = {
    "id": _quote_word("post.id"),
    "batchId": _quote_word("post.batch"),
    "externalId": _quote_text("post.external_id"),
    "profileId": _quote_word("account.profile"),  # of its account
    "accountId": _quote_word("account.id"),
    "account": _build_object(_ACCOUNT_FIELDS),
    "platform": _quote_word("post.platform"),
    "status": _quote_word("post.status"),
    "text": _quote_text("post.text"),
    "mediaRefs": _embed_json("post.media"),
    "scheduledAt": _format_time("post.scheduled_at"),
    "nextAttemptAt": _format_time("post.next_attempt_at"),
    "publishedAt": _format_time("post.published_at"),
    "platformUri": _quote_text("post.platform_uri"),
    "platformCid": _quote_text("post.platform_cid"),
    "url": _quote_text("post.url"),
    "warnings": _embed_json("post.warnings"),
    "threadOf": _quote_text("post.thread_of"),
    "threadPosition": _format_number("post.thread_position"),
    "createdAt": _format_time("post.created_at"),
    "updatedAt": _format_time("post.updated_at"),
}
# Only if present.
_ERROR_FIELD = _JsonExpression("%s", ("iif(post.error <> '', ',\"error\":' || json(post.error), '')",))
_COMMENT_FIELDS = {
    "text": _quote_text("post.first_comment"),
    "uri": _quote_text("post.first_comment_uri"),
    "cid": _quote_text("post.first_comment_cid"),
}
_ATTEMPT_FIELDS = {
    "id": _quote_word(select_column("attempt", "id")),
    "attemptNumber": _JsonExpression("%d", ("attempt.number",)),
    "startedAt": _format_time("attempt.started_at"),
    "finishedAt": _format_time("attempt.finished_at"),
    "succeeded": _JsonExpression(
        "%s", ("CASE attempt.succeeded WHEN 1 THEN 'true' WHEN 0 THEN 'false' ELSE 'null' END",)
    ),
    "errorCode": _quote_text("attempt.error_code"),
    "errorMessage": _quote_text("attempt.error_message"),
    "platformResponse": _embed_json("attempt.platform_response"),
}
_ATTEMPT_LIST = f"""(
    SELECT group_concat({_build_object(_ATTEMPT_FIELDS).sql})
    FROM (SELECT * FROM attempt WHERE attempt.post = post.number ORDER BY number) AS attempt
)"""
_DETAIL_FIELDS = _JsonExpression(
    ',"options":%s,"firstComment":%s,"attempts":[%s]',
    (
        "json_patch(json_object('platform', post.platform), post.options)",
        f"iif(post.first_comment <> '', {_build_object(_COMMENT_FIELDS).sql}, 'null')",
        _ATTEMPT_LIST,
    ),
)
_BODY, _DETAIL = _build_object(_POST_FIELDS, _ERROR_FIELD), _build_object(_POST_FIELDS, _ERROR_FIELD, _DETAIL_FIELDS)

# --- One post ----------------------------------------------------------------------------------------------------

# Optionally of one profile, and of the accounts in a JSON list.
FIND_DETAIL = f"""
    SELECT {_DETAIL.sql} FROM post CROSS JOIN account ON account.number = post.account
    WHERE post.id = ?1 AND post.organization = {select_number("organization", "?2")}
        AND (?3 IS NULL OR post.profile = {select_number("profile", "?3")})
        AND (?4 IS NULL OR account.id IN (SELECT value FROM json_each(?4)))
"""

# --- The post log ------------------------------------------------------------------------------------------------

# The posts with the numbers in a JSON list, in its order.
FIND_BY_NUMBERS = f"""
    SELECT group_concat({_BODY.sql}) FROM json_each(?) AS hit
    CROSS JOIN post ON post.number = hit.value CROSS JOIN account ON account.number = post.account
"""


def _select_page(owner: str) -> str:
    return f"""
    WITH hit AS MATERIALIZED (
        SELECT number, created_at FROM post
        WHERE {owner} = {select_number(owner, "?1")} AND created_at > ?2 AND (created_at, number) < (?3, ?4)
        ORDER BY created_at DESC, number DESC LIMIT ?5 + 1
    )
    SELECT
        (SELECT group_concat({_BODY.sql}) FROM (SELECT number FROM hit LIMIT ?5) AS shown
            CROSS JOIN post ON post.number = shown.number CROSS JOIN account ON account.number = post.account),
        (SELECT count(*) FROM hit) > ?5,
        (SELECT created_at FROM hit LIMIT 1 OFFSET ?5 - 1),
        (SELECT number FROM hit LIMIT 1 OFFSET ?5 - 1)
"""


# Owner, bounds of the positions, count: the posts, whether there are more, and the last position.
PAGE_OF_ORGANIZATION, PAGE_OF_PROFILE = _select_page("organization"), _select_page("profile")

HAS_PROFILE = "SELECT 1 FROM profile WHERE id = ?1 AND organization = ?2 AND deleted_at IS NULL"
