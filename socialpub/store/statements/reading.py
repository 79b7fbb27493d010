"""Posts as the API shows them, made by SQLite from row to JSON: no column of them becomes a value of Python's.

`PostBody` and `PostDetail` say what this gives; a test holds the two together. Ids and words of our own need no
quoting, and what is JSON in its row stays as it is.
"""

from __future__ import annotations

from typing import NamedTuple

from socialpub.store.statements.ids import number_of, told


class _Made(NamedTuple):
    """A JSON value as SQLite's `printf` writes it: its form, and the expressions that go into it."""

    form: str
    values: tuple[str, ...]

    @property
    def sql(self) -> str:
        return f"printf('{self.form}', {', '.join(self.values)})"


def _own(column: str) -> _Made:
    """An id or a word of our own."""
    return _Made('"%s"', (column,))


def _text(column: str) -> _Made:
    return _Made("%s", (f"json_quote({column})",))


def _time(column: str) -> _Made:
    """Epoch milliseconds as `iso` writes them."""
    form = '"%Y-%m-%dT%H:%M:%fZ"'
    return _Made("%s", (f"coalesce(strftime('{form}', {column} / 1000.0, 'unixepoch'), 'null')",))


def _json(column: str) -> _Made:
    """What is JSON already, which a damaged row's may not be: then the statement fails. Nothing is null."""
    return _Made("%s", (f"iif({column} <> '', json({column}), 'null')",))


def _object(fields: dict[str, _Made], *rest: _Made) -> _Made:
    """A JSON object; `rest` follows its fields and brings its own commas."""
    form = ",".join(f'"{name}":{made.form}' for name, made in fields.items())
    return _Made(
        "{" + form + "".join(made.form for made in rest) + "}",
        tuple(value for made in (*fields.values(), *rest) for value in made.values),
    )


_ACCOUNT = {
    "id": _own("account.id"),
    "platform": _own("account.platform"),
    "platformAccountId": _text("account.platform_account_id"),
    "displayName": _text("account.display_name"),
}
_POST = {
    "id": _own("post.id"),
    "batchId": _own("post.batch"),
    "profileId": _own("account.profile"),  # which a post has of its account
    "accountId": _own("account.id"),
    "account": _object(_ACCOUNT),
    "platform": _own("post.platform"),
    "status": _own("post.status"),
    "text": _text("post.text"),
    "mediaRefs": _json("post.media"),
    "scheduledAt": _time("post.scheduled_at"),
    "nextAttemptAt": _time("post.next_attempt_at"),
    "publishedAt": _time("post.published_at"),
    "platformUri": _text("post.platform_uri"),
    "platformCid": _text("post.platform_cid"),
    "url": _text("post.url"),
    "warnings": _json("post.warnings"),
    "createdAt": _time("post.created_at"),
    "updatedAt": _time("post.updated_at"),
}
_ERROR = _Made("%s", ("iif(post.error <> '', ',\"error\":' || json(post.error), '')",))  # only where there is one
_COMMENT = {
    "text": _text("post.first_comment"),
    "uri": _text("post.first_comment_uri"),
    "cid": _text("post.first_comment_cid"),
}
_ATTEMPT = {
    "id": _own(told("attempt", "id")),
    "attemptNumber": _Made("%d", ("attempt.number",)),
    "startedAt": _time("attempt.started_at"),
    "finishedAt": _time("attempt.finished_at"),
    "succeeded": _Made("%s", ("CASE attempt.succeeded WHEN 1 THEN 'true' WHEN 0 THEN 'false' ELSE 'null' END",)),
    "errorCode": _text("attempt.error_code"),
    "errorMessage": _text("attempt.error_message"),
    "platformResponse": _json("attempt.platform_response"),
}
_ATTEMPTS = f"""(
    SELECT group_concat({_object(_ATTEMPT).sql})
    FROM (SELECT * FROM attempt WHERE attempt.post = post.number ORDER BY number) AS attempt
)"""
_MORE = _Made(
    ',"firstComment":%s,"attempts":[%s]',
    (f"iif(post.first_comment <> '', {_object(_COMMENT).sql}, 'null')", _ATTEMPTS),
)
_BODY, _DETAIL = _object(_POST, _ERROR), _object(_POST, _ERROR, _MORE)

# --- One post ----------------------------------------------------------------------------------------------------

# Of one profile where it is named.
DETAIL = f"""
    SELECT {_DETAIL.sql} FROM post CROSS JOIN account ON account.number = post.account
    WHERE post.id = ?1 AND post.organization = {number_of("organization", "?2")}
        AND (?3 IS NULL OR post.profile = {number_of("profile", "?3")})
"""

# --- The post log ------------------------------------------------------------------------------------------------

# The posts with these numbers (a JSON list), in its order.
NAMED = f"""
    SELECT group_concat({_BODY.sql}) FROM json_each(?) AS hit
    CROSS JOIN post ON post.number = hit.value CROSS JOIN account ON account.number = post.account
"""


def _page(owner: str) -> str:
    return f"""
    WITH hit AS MATERIALIZED (
        SELECT number, created_at FROM post
        WHERE {owner} = {number_of(owner, "?1")} AND created_at > ?2 AND (created_at, number) < (?3, ?4)
        ORDER BY created_at DESC, number DESC LIMIT ?5 + 1
    )
    SELECT
        (SELECT group_concat({_BODY.sql}) FROM (SELECT number FROM hit LIMIT ?5) AS shown
            CROSS JOIN post ON post.number = shown.number CROSS JOIN account ON account.number = post.account),
        (SELECT count(*) FROM hit) > ?5,
        (SELECT created_at FROM hit LIMIT 1 OFFSET ?5 - 1),
        (SELECT number FROM hit LIMIT 1 OFFSET ?5 - 1)
"""


# Whose, after and below which place, how many: the posts, whether there are more, and the place of the last.
PAGE_OF_ORGANIZATION, PAGE_OF_PROFILE = _page("organization"), _page("profile")

PROFILE_EXISTS = "SELECT 1 FROM profile WHERE id = ?1 AND organization = ?2 AND deleted_at IS NULL"
