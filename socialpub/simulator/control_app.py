"""Control app: ledger page, JSON API of the simulator, and web pages for link cards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from jinja2 import Environment, FileSystemLoader
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sanic import HTTPResponse, Request, Sanic, empty, raw
from sanic.exceptions import SanicException
from sanic.response import html
from sanic.response import json as json_response

from socialpub.base.runtime import format_iso
from socialpub.simulator import link_pages
from socialpub.simulator.state import SimulatorState

_FILES = Path(__file__).parent / "page"
_SHOWN_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "video/mp4"})
_ON_PAGE = 100  # entries; the JSON API returns all
_SAFE = {
    "content-security-policy": "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'self'",
    "x-content-type-options": "nosniff",
}


class _LedgerQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    platform: str | None = None
    account: str | None = None
    since: Annotated[int, Field(ge=0)] = 0


class _TokensRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    platform: str
    account: str | None = None
    access: Literal["expired"] | None = None
    refresh: Literal["revoked"] | None = None


def app(name: str, lab: SimulatorState, origins: Mapping[str, str]) -> Sanic[Any, Any]:
    """Build the control app of one simulator; `origins` fills up while the platforms start."""
    made: Sanic[Any, Any] = Sanic(name, configure_logging=False)
    _add_reading(made, lab)
    _add_changing(made, lab)
    _add_page(made, lab, origins)
    _add_link_pages(made)
    _add_receiver(made)
    made.error_handler.add(SanicException, _handle_error)
    made.error_handler.add(ValidationError, _invalid)
    made.error_handler.add(ValueError, _handle_error)
    return made


async def _handle_error(request: Request, error: Exception) -> HTTPResponse:
    return json_response({"error": str(error)}, getattr(error, "status_code", 400))


async def _invalid(request: Request, error: ValidationError) -> HTTPResponse:
    issues = error.errors(include_url=False, include_context=False, include_input=False)
    first = f"{'.'.join(map(str, issues[0]['loc']))}: {issues[0]['msg']}"
    return json_response({"error": f"the request is not valid: {first}", "issues": issues}, 400)


def _add_reading(app: Sanic[Any, Any], lab: SimulatorState) -> None:
    @app.get("/lab/ledger")
    async def ledger(request: Request) -> HTTPResponse:
        query = _LedgerQuery.model_validate({name: request.args.get(name) for name in request.args})
        if query.platform is not None:
            lab.fake(query.platform)  # a platform that is not there has published nothing: that would be misread
        entries = lab.ledger.entries(query.platform, query.account, query.since)
        return json_response([entry.body() for entry in entries])

    @app.get("/lab/calls")
    async def calls(request: Request) -> HTTPResponse:
        return json_response([call.body_json() for call in list(lab.calls)])

    @app.get("/lab/faults")
    async def faults(request: Request) -> HTTPResponse:
        return json_response(lab.faults.body())

    @app.get("/lab/settings")
    async def settings(request: Request) -> HTTPResponse:
        return json_response(lab.settings.model_dump(by_alias=True))


def _add_changing(app: Sanic[Any, Any], lab: SimulatorState) -> None:
    @app.post("/lab/faults")
    async def add_faults(request: Request) -> HTTPResponse:
        lab.add_faults(_list(request))
        return json_response(lab.faults.body(), 201)

    @app.delete("/lab/faults")
    async def clear_faults(request: Request) -> HTTPResponse:
        lab.faults.clear()
        return empty()

    @app.post("/lab/settings")
    async def change_settings(request: Request) -> HTTPResponse:
        lab.configure(**_object(request))
        return json_response(lab.settings.model_dump(by_alias=True))

    @app.post("/lab/accounts")
    async def add_account(request: Request) -> HTTPResponse:
        wanted = _object(request)
        return json_response(lab.add_account(str(wanted.pop("platform", "")), **wanted), 201)

    @app.post("/lab/tokens")
    async def end_tokens(request: Request) -> HTTPResponse:
        asked = _TokensRequest.model_validate(_object(request))
        if not asked.access and not asked.refresh:
            raise ValueError('say "access": "expired", "refresh": "revoked", or both')
        lab.end_tokens(asked.platform, asked.account, access=bool(asked.access), refresh=bool(asked.refresh))
        return empty()

    @app.post("/lab/reset")
    async def reset(request: Request) -> HTTPResponse:
        lab.reset()
        return empty()


def _parsed(request: Request) -> Any:
    try:
        return json.loads(request.body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the body is not JSON: {error}") from error


def _object(request: Request) -> dict[str, Any]:
    parsed = _parsed(request)
    if not isinstance(parsed, dict):
        raise ValueError("the body is a JSON object")
    return parsed


def _list(request: Request) -> list[Any]:
    parsed = _parsed(request)
    if not isinstance(parsed, list):
        raise ValueError("the body is a JSON list")
    return parsed


def _add_page(app: Sanic[Any, Any], lab: SimulatorState, origins: Mapping[str, str]) -> None:
    templates = Environment(loader=FileSystemLoader(_FILES), autoescape=True)

    @app.get("/")
    async def page(request: Request) -> HTTPResponse:
        entries = list(reversed(lab.ledger.entries()))
        text = templates.get_template("ledger.html").render(
            entries=entries[:_ON_PAGE],
            older=len(entries[_ON_PAGE:]),
            calls=list(reversed(lab.calls[-50:])),
            origins=origins,
            faults=lab.faults.body(),
            iso=format_iso,
        )
        return html(text, headers=_SAFE)

    @app.get("/lab/page.css")
    async def style(request: Request) -> HTTPResponse:
        return raw((_FILES / "page.css").read_bytes(), content_type="text/css; charset=utf-8", headers=_SAFE)

    @app.get("/lab/blobs/<sha256:str>")
    async def blob(request: Request, sha256: str) -> HTTPResponse:
        found = lab.blobs.get(sha256)
        if found is None or found.type not in _SHOWN_TYPES:
            raise SanicException("there is no such image or video", 404)
        return raw(found.content, content_type=found.type, headers=_SAFE)


def _add_link_pages(app: Sanic[Any, Any]) -> None:
    @app.get("/pages/<name:str>")
    async def link_page(request: Request, name: str) -> HTTPResponse:
        if name.endswith(".png"):
            return raw(link_pages.png(name), content_type="image/png")
        if name == "clip.mp4":
            return raw((_FILES / name).read_bytes(), content_type="video/mp4")
        return html(link_pages.page(name, f"http://{request.host}"))


def _add_receiver(app: Sanic[Any, Any]) -> None:
    @app.post("/hooks/<status:int>")
    async def receive(request: Request, status: int) -> HTTPResponse:
        """Accept a webhook, with the status that the path names."""
        if not 200 <= status <= 599:
            raise SanicException("a status is a number from 200 to 599", 404)
        return empty(status)
