"""Meta's Graph APIs, shared by three platforms: calls, errors, lists.

HTTP statuses say little; the error numbers decide. So a response with a Graph error is looked up in REPLIES as status
400 under its names ("4/2207051", "2207051", "4"), and one that Meta calls transient as status 503. A row names a number
regardless of its place: the same one is `code` on one edge and `error_subcode` on another.
Sources: developers.facebook.com/docs/graph-api/guides/error-handling and /overview/rate-limiting.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from socialpub.base import json_codec
from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UpstreamResponse, retry_after
from socialpub.platforms.contract import Json, Replies, ScopedSite, Site, Tokens, Upstream, Verdict, classify, find_name
from socialpub.platforms.kit import oauth
from socialpub.platforms.kit.api_errors import (
    ErrorFactory,
    list_secrets,
    redact_response,
    to_count,
    to_id,
    to_record,
    to_records,
    to_text,
)

Method = Literal["GET", "POST", "DELETE"]
AUTH = "platform_auth_failed"
SKEW_MS = 120_000  # between Meta's clock and ours (reliability: a match is exact within two minutes)
PAGE = 25
PAGES_MAX = 20
# developers.facebook.com/docs/graph-api/changelog/versions, shared by Facebook and Instagram; nothing on v26.0.
SUNSETS = {
    "v20.0": "2026-09-24",
    "v21.0": "2027-01-21",
    "v22.0": "2027-05-20",
    "v23.0": "2027-10-08",
    "v24.0": "2028-02-18",
    "v25.0": "2028-07-29",
}


SERVED_VERSION_HEADER = "facebook-api-version"  # an ended version is answered by the oldest live one


def next_version(version: str) -> str:
    """Return the name of Meta's next version."""
    return f"v{int(version.removeprefix('v').partition('.')[0]) + 1}.0"


class MetaSite(ScopedSite):
    """Common settings of platforms on a Graph API."""

    appsecret_proof: bool = False
    """Whether to send `appsecret_proof`, for apps with "Require App Secret"."""


# --- Classification ----------------------------------------------------------------------------------------------

_RECONNECT = Verdict(Outcome.REJECTED, AUTH, remediation="Reconnect the account.", token_refused=True)
_CHECKPOINT = Verdict(
    Outcome.REJECTED,
    AUTH,
    remediation="Log in on the platform itself and do what it asks, then reconnect the account.",
    token_refused=True,
)
_ROLE = Verdict(
    Outcome.REJECTED,
    AUTH,
    remediation="Have the role on the Page restored first, then reconnect the account.",
    token_refused=True,
)
_PERMISSION = Verdict(
    Outcome.REJECTED,
    AUTH,
    remediation="Reconnect the account and grant every requested permission.",
)
THROTTLED = Verdict(Outcome.THROTTLED, "platform_unavailable")
RETRY = Verdict(Outcome.NOT_SENT, "platform_unavailable")

SHARED: Replies = {
    ("*", 400, "190"): _RECONNECT,
    ("*", 400, "102"): _RECONNECT,
    ("*", 400, "459"): _CHECKPOINT,
    ("*", 400, "464"): _CHECKPOINT,
    ("*", 400, "492"): _ROLE,
    ("*", 400, "permission"): _PERMISSION,
    ("*", 400, "app_secret"): Verdict(
        Outcome.REJECTED,
        "platform_not_enabled",
        remediation="The operator sets the platform's client_secret and switches appsecret_proof on.",
    ),
    ("*", 401, None): _RECONNECT,
    ("*", 400, "100"): Verdict(Outcome.REJECTED),
    # Reading sometimes fails this way for existing objects (100/33).
    **{(step, 400, "100"): RETRY for step in ("status", "settle")},
    # A throttled call is refused before it does anything (graph-api/overview/rate-limiting).
    **{("*", 400, name): THROTTLED for name in ("4", "17", "32", "341", "613", "80001", "80002")},
}
"""Rows common to all Graph APIs; platforms add their own."""

_PASSING_SUBCODES = frozenset({6001, 1363047, 1609010})
_PASSING = _PASSING_SUBCODES | {1, 2, -1, -2}
_PERMISSIONS = frozenset({3, 10, *range(200, 300)})
# The rest of the file is sent again from where it is (video-api/guides/reels-publishing).
_RESUMABLE = ("OffsetInvalidError", "PartialRequestError")
_PHRASES = {"appsecret_proof": "app_secret"}


@dataclass(frozen=True)
class GraphFault:
    """Graph error; both numbers are None if the response has none."""

    code: int | None = None
    subcode: int | None = None
    message: str = ""  # for people
    words: str = ""  # all texts, in lower case
    transient: bool = False
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Subcode and code, if present."""
        return tuple(number for number in (self.subcode, self.code) if number is not None)

    @property
    def is_passing(self) -> bool:
        """True if the numbers suggest a retry."""
        return not _PASSING.isdisjoint(self.numbers)

    @property
    def names(self) -> tuple[str, ...]:
        """Names in REPLIES, most specific first; without the code's if the subcode passes."""
        pair = (f"{self.code}/{self.subcode}",) if len(self.numbers) == 2 else ()
        if self.subcode in _PASSING_SUBCODES:
            return (*pair, str(self.subcode))
        group = ("permission",) if self.code in _PERMISSIONS else ()
        return (*pair, *map(str, self.numbers), *group)


def parse_fault(reply: UpstreamResponse) -> GraphFault:
    """Parse the error of a response, in Graph's form or that of token endpoints."""
    body = reply.record()
    error = body.get("error")
    if isinstance(error, dict):
        texts = [str(error.get(key) or "") for key in ("error_user_msg", "message", "error_user_title")]
        return GraphFault(
            _number(error.get("code")),
            _number(error.get("error_subcode")),
            texts[0] or texts[1],
            "\n".join(texts).lower(),
            error.get("is_transient") is True,
            to_record(error.get("error_data")),
        )
    debug = body.get("debug_info")  # of upload hosts
    if isinstance(debug, dict):
        again = debug.get("retriable") is True or debug.get("type") in _RESUMABLE
        return GraphFault(message=str(debug.get("message") or ""), transient=again)
    return GraphFault(message=str(body.get("error_message") or ""))


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# --- API ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GraphApi(ErrorFactory):
    """Graph API of one platform: its response table and calls.

    `phrases`: message parts (lower case) that name errors whose code says too little.
    """

    phrases: Mapping[str, str] = field(default_factory=dict)

    def address(self, site: Site, path: str) -> str:
        return f"{site.api_base}/{self.platform.pinned(site)}/{path}"

    def call(
        self,
        up: Upstream,
        step: str,
        method: Method,
        path: str,
        *,
        token: str | None = None,
        mutating: bool = False,
        **sent: Any,
    ) -> UpstreamResponse:
        """Call and return the 2xx response. Raises others as REPLIES classifies them."""
        reply = self.ask(up, method, path, token=token, **sent)
        if not reply.is_success:
            raise self.refused(up, step, reply, mutating=mutating)
        if method == "GET" and reply.lacks_record:
            raise self.build_unusable(up, step, reply)
        return reply

    def ask(
        self, up: Upstream, method: Method, path: str, *, token: str | None = None, **sent: Any
    ) -> UpstreamResponse:
        """Send a request with the token in a header. `path`: below the version, or a whole URL."""
        url = path if "://" in path else self.address(up.site, path)
        bearer = token or up.tokens.access
        headers = {"Authorization": f"Bearer {bearer}"} | dict(sent.pop("headers", {}))
        params = dict(sent.pop("params", None) or {}) | build_proof(up.site, bearer)
        return up.http.request(method, url, headers=headers, params=params or None, **sent)

    def name(self, step: str, reply: UpstreamResponse) -> str | None:
        """Return the error's name in REPLIES at this step, or None."""
        fault = parse_fault(reply)
        phrases = {**self.phrases, **_PHRASES}
        phrase = next((name for words, name in phrases.items() if words in fault.words), None)
        names = (phrase, *fault.names) if phrase else fault.names
        return find_name(self.replies, step, 400, names)

    def verdict(self, step: str, reply: UpstreamResponse, *, mutating: bool) -> Verdict:
        """Classify an unsuccessful response."""
        fault, name = parse_fault(reply), self.name(step, reply)
        found = classify(self.replies, step, 400 if name else reply.status_code, name, mutating=mutating)
        settled = name is not None and (found.outcome is not Outcome.REJECTED or found.code == AUTH)
        if settled or not (fault.transient or (name is None and fault.is_passing)):
            return found
        return classify(self.replies, step, 503, None, mutating=mutating)

    def refused(self, up: Upstream, step: str, reply: UpstreamResponse, *, mutating: bool = False) -> ApiError:
        """Build the error of a response, with secrets redacted."""
        shown = redact_response(up, reply)
        found = self.verdict(step, reply, mutating=mutating)
        error = self.build_reported(up, step, found, shown, parse_fault(shown).message)
        # Graph checks the token and its permissions before it does anything.
        error.absent = mutating and error.code == AUTH
        if error.code == "platform_unavailable":
            error.retry_after = error.retry_after or get_wait_seconds(reply)
        return error

    def build_violation(
        self, up: Upstream, suffix: str, outcome: Outcome, found: str = "", said: Any = None
    ) -> ApiError:
        """Build the error of a rule violated by something other than an error response."""
        error = super().build_violation(up, suffix, outcome, found, said)
        # The platform itself may refuse by a rule that preflight also checks.
        upstream = error.code == "preflight_failed"
        return replace(error, code="platform_rejected", status=0) if upstream else error

    def id_of(
        self, up: Upstream, step: str, reply: UpstreamResponse, *, mutating: bool = False, key: str = "id"
    ) -> str:
        """Extract an id (text or number in Meta's responses)."""
        found = to_id(reply.record().get(key))
        if not found:
            raise self.build_unusable(up, step, reply, mutating=mutating)
        return found


def build_proof(site: Site, token: str) -> dict[str, str]:
    """Build the proof that a call comes from the app; empty if disabled or unknown.

    Apps with "Require App Secret" are refused every call without it (graph-api/guides/secure-requests).
    """
    if not (isinstance(site, MetaSite) and site.appsecret_proof and site.client_secret):
        return {}
    return {"appsecret_proof": hmac.new(site.client_secret.encode(), token.encode(), hashlib.sha256).hexdigest()}


def get_wait_seconds(reply: UpstreamResponse) -> int | None:
    """Return the seconds until calls are accepted, from the usage headers; None if not given.

    The headers give minutes. Used-up app calls give no time: they are counted over an hour.
    """
    app = _usage(reply, "x-app-usage")
    rows = [app, *(row for each in _usage(reply, "x-business-use-case-usage").values() for row in to_records(each))]
    minutes = (to_count(row.get("estimated_time_to_regain_access")) for row in rows)
    longest = min(max(filter(None, minutes), default=0), retry_after.SECONDS_MAX // 60)
    used_up = any(isinstance(app.get(name), int) and app[name] >= 100 for name in _APP_COUNTS)
    return longest * 60 or (_APP_WINDOW if used_up else None)


_APP_COUNTS = ("call_count", "total_time", "total_cputime")
_APP_WINDOW = 3600


def _usage(reply: UpstreamResponse, header: str) -> Json:
    try:
        found = json_codec.loads(reply.headers.get(header, ""))
    except ValueError:
        return {}
    return to_record(found)


# --- Lists -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GraphPostList:
    """Recent posts of a list. `complete`: read back to older ones."""

    posts: tuple[Json, ...]
    complete: bool


def list_recent(graph: GraphApi, up: Upstream, edge: str, fields: str, time_field: str, since_ms: int) -> GraphPostList:
    """List posts since a moment (or a little before). Raises ApiError for a bad page.

    An older post does not end the list, since a pinned or backdated one may stand before newer ones; a page of them
    does.
    """
    found: list[Json] = []
    params = {"fields": fields, "limit": str(PAGE), "since": str((since_ms - SKEW_MS) // 1000)}
    for _ in range(PAGES_MAX):
        reply = graph.call(up, "settle", "GET", edge, params=params)
        posts = reply.record().get("data")
        if not isinstance(posts, list):
            raise graph.build_unusable(up, "settle", reply)
        times = [(parse_time_ms(post.get(time_field)), post) for post in to_records(posts)]
        young = [post for at, post in times if at is not None and at >= since_ms - SKEW_MS]
        if any(at is None for at, _ in times):  # one of them may be ours
            raise graph.build_unusable(up, "settle", reply)
        found += young
        if not has_next(reply.record()) or (posts and not young):
            return GraphPostList(tuple(found), True)
        after = find_cursor(reply.record())
        if not after:  # the rest cannot be read
            break
        params = params | {"after": after}
    return GraphPostList(tuple(found), False)


def has_next(body: Json) -> bool:
    """Return whether a list goes on."""
    return bool(to_record(body.get("paging")).get("next"))


def find_cursor(body: Json) -> str:
    """Return the cursor of the next page, or empty. Its full URL is avoided: it has the token."""
    cursors = to_record(to_record(body.get("paging")).get("cursors"))
    return to_text(cursors.get("after")) if has_next(body) else ""


def parse_time_ms(text: object) -> int | None:
    """Parse Graph's time format (2026-11-20T12:00:00+0000); None if invalid."""
    try:
        return int(datetime.strptime(str(text), "%Y-%m-%dT%H:%M:%S%z").timestamp() * 1000)
    except ValueError:
        return None


# --- Tokens ----------------------------------------------------------------------------------------------------------


def exchange(graph: GraphApi, up: Upstream, url: str, params: Mapping[str, str], now_ms: int) -> Tokens:
    """Exchange tokens by a GET with query parameters; the scopes stay as they were."""
    reply = up.http.request("GET", url, params=params, headers={"Accept": "application/json"})
    hide = [*list_secrets(up), *params.values()]
    found = oauth.parse_tokens(graph.platform, reply, now_ms, held=up.tokens, hide=hide)
    # The access token itself refreshes it, so it is stored in both fields.
    return replace(found, refresh=found.access)


def exchange_for_long_lived(graph: GraphApi, up: Upstream, grant: str, now_ms: int) -> Tokens:
    """Exchange the token of a login for one that lasts 60 days."""
    params = {"grant_type": grant, "client_secret": up.site.client_secret, "access_token": up.tokens.access}
    return exchange(graph, up, f"{up.site.api_base}/access_token", params, now_ms)


def refresh_long_lived(graph: GraphApi, up: Upstream, grant: str, now_ms: int) -> Tokens:
    """Refresh a long-lived token. A refused one that still works is only too new."""
    params = {"grant_type": grant, "access_token": up.tokens.access}
    try:
        return exchange(graph, up, f"{up.site.api_base}/refresh_access_token", params, now_ms)
    except ApiError as error:
        if error.code != AUTH or not graph.ask(up, "GET", "me", params={"fields": "id"}).is_success:
            raise
        message = f"{graph.platform.label} does not renew this token yet."
        raise graph.build_unavailable(up, message, Outcome.NOT_SENT, error.platform_response) from error


def list_data(reply: UpstreamResponse) -> list[Json]:
    """Return the objects of a response's `data`."""
    return to_records(reply.record().get("data"))


def find_edge(up: Upstream, name: str) -> str:
    """Return the path of an edge of the account."""
    return f"{up.account.platform_account_id}/{name}"
