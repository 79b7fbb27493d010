"""Errors of X: problem documents, some with inner errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from socialpub.simulator.contract import FakeResponse, RefusedError

_TYPES = "https://api.x.com/2/problems/"
_PROBLEM = "application/problem+json"

_TITLES: Mapping[int, tuple[str, str]] = {
    400: ("Invalid Request", "One or more parameters to your request was invalid."),
    401: ("Unauthorized", "Unauthorized"),
    402: ("CreditsDepleted", "Your enrolled account does not have any credits to fulfill this request."),
    403: ("Forbidden", "You are not permitted to perform this action."),
    404: ("Not Found Error", "Could not find what was asked for."),
    405: ("Method Not Allowed", "The method is not allowed here."),
    413: ("Payload Too Large", "The request is too large."),
    429: ("Too Many Requests", "Too Many Requests"),
    503: ("Service Unavailable", "Service Unavailable"),
}
_KINDS = {402: "credits", 404: "resource-not-found"}


def plain(status: int, headers: Mapping[str, str] | None = None) -> FakeResponse:
    """Build the refusal for a status."""
    title, detail = _TITLES.get(status, ("Error", "Something went wrong."))
    return problem(status, title, detail, _KINDS.get(status, ""), headers=headers or {}).answer


def problem(
    status: int, title: str, detail: str, kind: str = "", *, headers: Mapping[str, str] | None = None, **more: Any
) -> RefusedError:
    """Build a problem of one of X's types; without `kind`, about:blank."""
    body = {"title": title, "detail": detail, "type": f"{_TYPES}{kind}" if kind else "about:blank", "status": status}
    return RefusedError(FakeResponse(status, body | more, headers or {}, _PROBLEM))


def forbidden(detail: str) -> RefusedError:
    return problem(403, "Forbidden", detail)


def invalid(message: str, parameter: str, values: Sequence[object] = ()) -> RefusedError:
    """Build the refusal of a parameter; the inner error has the details."""
    inner = {"message": message, "parameters": {parameter: [str(value)[:200] for value in values]}}
    title, detail = _TITLES[400]
    body = {"errors": [inner], "title": title, "detail": detail, "type": f"{_TYPES}invalid-request"}
    return RefusedError(FakeResponse(400, body, content_type=_PROBLEM))
