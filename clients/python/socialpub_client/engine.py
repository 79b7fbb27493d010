"""Calls without I/O: build requests, retry them, read answers and errors."""

from __future__ import annotations

import json
import math
import random
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeAlias, TypeVar
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from socialpub_client import errors
from socialpub_client.error_kinds import BUSY, LOST, RUNNING, classify
from socialpub_client.messages import (
    DEFAULT_TIMEOUT,
    FileUpload,
    Request,
    Response,
    Sleep,
    Steps,
    Timeout,
    TransportError,
)

T = TypeVar("T")
Json = Mapping[str, Any]

USER_AGENT = "socialpub-client/0.1.0"
WAIT_MAX = 55  # seconds that the server takes in `Prefer: wait`
READ_MARGIN = 45.0  # seconds that the server may take beyond the wait that it was asked for
DELAY_FIRST, DELAY_MAX = 0.5, 8.0
NOT_REACHED = "Nothing was accepted. Check the address, and try again."
LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_KEY = re.compile(r"[!-~]{1,512}")
_HEADER = re.compile(r"[!-~]([ -~]*[!-~])?")
_IDEMPOTENCY_KEY = re.compile(r"[!-~]{1,255}")


@dataclass(frozen=True)
class Runtime:
    """Clock and chance of a client; tests pass their own."""

    monotonic: Callable[[], float] = time.monotonic
    random: Callable[[], float] = random.random
    new_key: Callable[[], str] = lambda: str(uuid.uuid4())


SYSTEM_RUNTIME = Runtime()


@dataclass(frozen=True)
class Answer:
    """Successful answer: status, headers in lower case, JSON body (None of a 204).

    `key`: the idempotency key of the request.
    """

    status: int
    headers: Mapping[str, str]
    json: Any = field(repr=False)
    key: str | None = field(default=None, repr=False)

    @property
    def etag(self) -> str:
        """The resource's version, for `if_match`; empty where there is none."""
        return self.headers.get("etag", "")

    @property
    def replayed(self) -> bool:
        """Return whether an earlier request with the same idempotency key had this answer."""
        return self.headers.get("idempotency-replayed") == "true"


OnRetry: TypeAlias = Callable[[errors.SocialpubError, float], None]
"""Called before a further try, with the error of the last one and the seconds until the next."""


@dataclass(frozen=True)
class Engine:
    """Settings of a client, and its calls as steps. The key is in no representation."""

    url: str
    key: str = field(repr=False)
    profile: str | None = None
    timeout: Timeout = DEFAULT_TIMEOUT
    retries: int = 4
    patience: float = 120.0
    runtime: Runtime = field(default=SYSTEM_RUNTIME, repr=False)
    allow_http: bool = False
    on_retry: OnRetry | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raise ConfigurationError for an address or key that cannot be used."""
        parts = _split_address(self.url)
        if parts.username is not None or parts.password is not None:
            raise errors.ConfigurationError("The address of the server must not have a user name or password.")
        if parts.scheme == "http" and not self.allow_http and parts.hostname not in LOOPBACK:
            raise errors.ConfigurationError(
                f"The key would cross the network in the clear to {parts.hostname}.",
                remediation="Use an https address. In Python, allow_http=True sends it anyway.",
            )
        if not _KEY.fullmatch(self.key):
            raise errors.ConfigurationError("The API key is empty or has characters that no key has.")

    # --- Calls ---

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        body: FileUpload | None = None,
        headers: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        if_match: str | None = None,
        wait: float | None = None,
    ) -> Steps[Answer]:
        """Send a request, again where that is safe, and return its answer.

        `wait`: the seconds that the answer may wait at the server. Raises SocialpubError.
        """
        is_write = method not in ("GET", "HEAD")
        key = (idempotency_key or self.runtime.new_key()) if is_write else None
        if key is not None and not _IDEMPOTENCY_KEY.fullmatch(key):
            raise errors.InvalidArgument("An idempotency key has 1 to 255 visible ASCII characters.")
        sent_headers = self._headers(json, body, key, if_match, wait) | dict(headers or {})
        for name, value in sent_headers.items():
            if not _HEADER.fullmatch(value):
                raise errors.InvalidArgument(f"The header {name} must be visible ASCII characters.")
        request = Request(
            method,
            self._address(path, params),
            sent_headers,
            body if body is not None else b"" if json is None else _dump(json),
            self._timeout(wait),
        )
        return (yield from self._send(request, key))

    def get(self, path: str, parse: Callable[[Json], T], **params: Any) -> Steps[T]:
        """Read one resource."""
        answer = yield from self.request("GET", path, params=params)
        return read(parse, answer)

    def _address(self, path: str, params: Mapping[str, Any] | None) -> str:
        if not path.startswith("/"):
            raise errors.InvalidArgument("A path begins with `/`.")
        pairs = [(name, text) for name, value in (params or {}).items() for text in _texts(value)]
        try:
            path.encode()
            query = urlencode(pairs)
        except UnicodeEncodeError:
            raise errors.InvalidArgument("A path or parameter is not valid Unicode.") from None
        return f"{self.url.rstrip('/')}{path}{'?' if pairs else ''}{query}"

    def _headers(
        self, json: Any, body: FileUpload | None, key: str | None, if_match: str | None, wait: float | None
    ) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {self.key}", "Accept": "application/json", "User-Agent": USER_AGENT}
        if json is not None and body is None:
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        if if_match is not None:
            headers["If-Match"] = if_match
        if wait is not None:
            headers["Prefer"] = "respond-async" if wait < 1 else f"wait={min(int(wait), WAIT_MAX)}"
        return headers

    def _timeout(self, wait: float | None) -> Timeout:
        """The client never gives up before the server answers."""
        if wait is None:
            return self.timeout
        return Timeout(self.timeout.connect, self.timeout.write, min(max(wait, 0), WAIT_MAX) + READ_MARGIN)

    # --- Retries ---

    def _send(self, request: Request, key: str | None) -> Steps[Answer]:
        """Send a request until it has an answer. Raises SocialpubError.

        A write that may have arrived ends as OutcomeUnknown.
        """
        tries, waited, may_be_accepted = 0, 0.0, False
        can_repeat = isinstance(request.body, bytes) or request.body.can_repeat
        while True:
            tries += 1
            try:
                response = yield from _exchange(request)
            except TransportError as lost:
                error: errors.SocialpubError = errors.ConnectionFailed(str(lost), remediation=NOT_REACHED)
                kind = LOST if lost.sent else BUSY
            else:
                answer = _parse_answer(response)
                if isinstance(answer, Answer):
                    return replace(answer, key=key)
                error, kind = answer, classify(answer)
                tries -= kind is RUNNING  # waiting for the answer of the first try is no new one
            may_be_accepted = may_be_accepted or kind.may_be_accepted
            if not can_repeat and kind.again:
                error.remediation = "The source can be read only once, so it was sent once. Send it again yourself."
            delay = self._delay(tries, error)
            if not (kind.again and can_repeat) or tries > self.retries or waited + delay > self.patience:
                raise self._final(error, key, doubtful=may_be_accepted and not kind.settles)
            if self.on_retry is not None:
                self.on_retry(error, delay)
            yield Sleep(delay)
            waited += delay

    def _delay(self, tries: int, error: errors.SocialpubError) -> float:
        """Return the seconds until the next try: the server's, else random with a growing bound."""
        if error.retry_after:  # 0 would be a try at once, and the next one
            return float(error.retry_after)
        return self.runtime.random() * min(DELAY_FIRST * 2.0 ** max(tries - 1, 0), DELAY_MAX)

    def _final(self, error: errors.SocialpubError, key: str | None, *, doubtful: bool) -> errors.SocialpubError:
        if key is None or not doubtful:
            return error
        return errors.OutcomeUnknown(
            error.message, key, status=error.status, request_id=error.request_id, retry_after=error.retry_after
        )


def _exchange(request: Request) -> Steps[Response]:
    response = yield request
    assert isinstance(response, Response)
    return response


# --- Answers -------------------------------------------------------------------------------------------------------


def read(parse: Callable[..., T], answer: Answer) -> T:
    """Read the object of an answer.

    Raises UnexpectedAnswer where it is another one, OutcomeUnknown if that is of a write.
    """
    try:
        return parse(answer.json)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"The answer is not as the API describes it ({type(error).__name__}: {error})."
        if answer.key is not None:
            raise errors.OutcomeUnknown(message, answer.key, status=answer.status) from error
        raise errors.UnexpectedAnswer(message, status=answer.status) from error


def read_list(parse: Callable[[Json], T], answer: Answer) -> tuple[T, ...]:
    """Read the objects of a list's answer. Raises UnexpectedAnswer."""

    def parse_all(data: Json) -> tuple[T, ...]:
        return tuple(parse(each) for each in data["data"])

    return read(parse_all, answer)


def read_versioned(parse: Callable[..., T], answer: Answer) -> T:
    """Read the object of an answer with its ETag. Raises UnexpectedAnswer."""

    def parse_versioned(data: Json) -> T:
        return parse(data, answer.etag)

    return read(parse_versioned, answer)


def _parse_answer(response: Response) -> Answer | errors.SocialpubError:
    """Read a success; return the error of any other response."""
    if not 200 <= response.status < 300:
        return _parse_error(response)
    try:
        return Answer(response.status, response.headers, None if response.status == 204 else json.loads(response.body))
    except (ValueError, RecursionError):
        message = f"The server answered {response.status}, but not with JSON."
        return errors.UnexpectedAnswer(message, status=response.status)


def _parse_error(response: Response) -> errors.SocialpubError:
    """Convert an answer that is no success."""
    retry_after = _parse_seconds(response.headers.get("retry-after"))
    try:
        envelope = json.loads(response.body)
        detail = envelope["error"]
        texts = {name: value for name, value in detail.items() if isinstance(value, str)}
        code, message = texts["code"], texts["message"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        location = " Redirects are not followed." if 300 <= response.status < 400 else ""
        return errors.UnexpectedAnswer(
            f"The server answered {response.status}, without an error of socialpub.{location}",
            status=response.status,
            retry_after=retry_after,
        )
    return errors.BY_CODE.get(code, errors.SocialpubError)(
        message,
        code=code,
        rule=texts.get("rule"),
        status=response.status,
        remediation=texts.get("remediation", ""),
        doc_url=texts.get("docUrl", ""),
        rule_url=texts.get("ruleUrl"),
        request_id=texts.get("requestId"),
        platform_response=detail.get("platformResponse"),
        retry_after=retry_after,
        envelope=envelope,
    )


def _parse_seconds(text: str | None) -> int | None:
    """Return the seconds of a Retry-After header; None for a date, which jitter replaces."""
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,9}", text) else None


# --- Arguments -----------------------------------------------------------------------------------------------------


def _dump(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise errors.InvalidArgument(f"The body is no JSON: {error}.") from error


def _split_address(url: str) -> SplitResult:
    """Return the parts of a server's address. Raises ConfigurationError."""
    refusal = errors.ConfigurationError("The address of the server must be an http or https URL.")
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")
        is_whole = parts.port != 0 and url.isprintable() and not re.search(r"\s", url)
    except ValueError:  # of the port, of brackets, of a name with an empty part
        raise refusal from None
    if not is_whole or parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise refusal
    return parts


def segment(value: str) -> str:
    """Return an id as a part of a path."""
    if not value or value in (".", ".."):
        raise errors.InvalidArgument("An id is missing.")
    try:
        return quote(value, safe="")
    except UnicodeEncodeError:
        raise errors.InvalidArgument("An id is not valid Unicode.") from None


def format_time(value: datetime | str) -> str:
    """Return a time as the API takes it. Raises InvalidArgument for one without a time zone."""
    if isinstance(value, str):
        return value
    if value.tzinfo is None:
        raise errors.InvalidArgument(f"The time {value} has no time zone.")
    return value.isoformat()


def _texts(value: Any) -> Iterable[str]:
    """Yield the texts of a query parameter: none for None, one for each element of a list."""
    if value is None:
        return
    if isinstance(value, bool):
        yield "true" if value else "false"
    elif isinstance(value, datetime):
        yield format_time(value)
    elif isinstance(value, str | int | float):
        if isinstance(value, float) and not math.isfinite(value):
            raise errors.InvalidArgument("A parameter is not a number.")
        yield str(value)
    else:
        for each in value:
            yield from _texts(each)


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def upload_headers(boundary: str) -> dict[str, str]:
    """Return the headers of a multipart body."""
    return {"Content-Type": f"multipart/form-data; boundary={boundary}"}
