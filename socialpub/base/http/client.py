"""The HTTP client of outbound calls: httpx with one deadline per call.

No environment proxies, no cookies, and no redirects except in `download`. URLs of users are guarded against SSRF
(`base.http.ssrf`): the name is resolved once, every address is checked, and only a checked one is connected to. A
failure before the head of a response is an ApiError with its outcome: not sent, or ambiguous. A failure after it is an
`UpstreamResponse` that says why its body is missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

import httpx

from socialpub.base.errors import ApiError, Outcome, rule_error
from socialpub.base.http.network import ConnectionPolicy, PrivateAddressError
from socialpub.base.http.response import UnreadReason, UpstreamResponse
from socialpub.base.http.ssrf import check_url
from socialpub.base.http.transport import HttpTransport
from socialpub.base.observability import tracing

CALL_SECONDS = 30.0
UPLOAD_SECONDS = 300.0
USER_AGENT = "socialpub/0.1 (+https://github.com/socialpub/socialpub)"
_HEADERS = {"Accept": "*/*", "Accept-Encoding": "identity", "Connection": "keep-alive", "User-Agent": USER_AGENT}


class WritableFile(Protocol):
    """The target of a download: a binary file or an object like one."""

    def write(self, data: bytes, /) -> object: ...


class HttpClient(httpx.Client):
    """A client of calls under one policy; it holds no connection, and threads may share it.

    `timeout` is the deadline of a whole call, from the name look-up to the end of the body; the request extension
    `max_bytes` limits the decoded body. Calls raise ApiError `platform_unavailable` with the outcome NOT_SENT (no
    connection) or AMBIGUOUS (connected, but no complete response head in time).

    `now_ms` is the wall clock for `received_ms`. `transport` replaces the network, or wraps it.
    """

    def __init__(
        self,
        policy: ConnectionPolicy,
        now_ms: Callable[[], int] | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        super().__init__(
            transport=transport or HttpTransport(policy),
            timeout=CALL_SECONDS,
            headers=_HEADERS,
            cookies=CookieJar(DefaultCookiePolicy(netscape=False)),  # stores none
            trust_env=False,
        )
        self._policy, self._now_ms = policy, now_ms

    def request(self, method: str, url: httpx.URL | str, **options: Any) -> UpstreamResponse:
        return cast(UpstreamResponse, super().request(method, url, **options))

    def build_request(self, method: str, url: httpx.URL | str, **options: Any) -> httpx.Request:
        reason = check_url(str(url), named=self._policy.named) if self._policy.guarded else None
        if reason:
            raise _disallowed_error(str(url), reason)
        try:
            return super().build_request(method, url, **options)
        except httpx.InvalidURL as error:
            raise _unreached_error(str(url)) from error

    def send(self, request: httpx.Request, **options: Any) -> UpstreamResponse:
        url = str(request.url)
        with tracing.trace_call(request.method, url) as span:
            try:
                response = super().send(request, **options)
            except (httpx.TransportError, PrivateAddressError) as error:
                raise _convert_error(url, error) from error
            tracing.set_status(span, response.status_code)
        assert isinstance(response, UpstreamResponse), "a transport for this client answers with them"
        response.received_ms = self._now_ms() if self._now_ms else None
        return response

    def download(
        self, url: str, into: WritableFile, *, max_bytes: int, timeout: float, redirects: int = 3, whole: bool = True
    ) -> UpstreamResponse:
        """Write a resource into a file, following up to `redirects` redirects.

        Each redirect is checked like the first URL. The response has no content; `unread` says that the file is
        incomplete. `whole`: the beginning of a resource is of no use, so one that announces more than `max_bytes` is
        not read. Raise ApiError as any call does, and the errors of `into`.
        """
        ends_at = time.monotonic() + timeout
        for _ in range(redirects + 1):
            request = self.build_request("GET", url, timeout=ends_at - time.monotonic())
            response = self.send(request, stream=True)
            if response.redirect is None:
                if response.is_success and whole and response.announces_more(max_bytes):
                    response.unread = UnreadReason.TOO_LARGE
                elif response.is_success:
                    response.write_to(into.write, max_bytes)
                response.close()
                return response
            response.close()
            try:
                url = str(request.url.join(response.redirect))
            except httpx.InvalidURL as error:
                raise _unreached_error(url) from error
        raise _lost_response_error(url, "it redirects too often")


# --- Failures ------------------------------------------------------------------------------------------------------


def _convert_error(url: str, error: Exception) -> ApiError:
    if isinstance(error, PrivateAddressError):
        return _disallowed_error(url, "its address is private")
    unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.UnsupportedProtocol)
    failure = _unreached_error(url) if unsent else _lost_response_error(url, "its response was lost")
    failure.unanswered = isinstance(error, httpx.TimeoutException | httpx.NetworkError | httpx.RemoteProtocolError)
    return failure


def _disallowed_error(url: str, reason: str) -> ApiError:
    error = rule_error("media.url.disallowed", f"This server does not call {_strip_url(url)}: {reason}.")
    error.outcome = Outcome.NOT_SENT
    return error


def _unreached_error(url: str) -> ApiError:
    return ApiError("platform_unavailable", f"{_get_host(url)} could not be reached.", outcome=Outcome.NOT_SENT)


def _lost_response_error(url: str, why: str) -> ApiError:
    return ApiError("platform_unavailable", f"{_get_host(url)} was called, but {why}.", outcome=Outcome.AMBIGUOUS)


def _strip_url(url: str) -> str:
    """Return a URL without query and credentials, for messages."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "that URL"
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"[:200]


def _get_host(url: str) -> str:
    try:
        return urlsplit(url).hostname or "The upstream"
    except ValueError:
        return "The upstream"
