"""/docs: one page for every error code and every rule, from the tables that the code checks with."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from socialpub import __version__, platforms
from socialpub.base.config import shipped
from socialpub.base.errors import ERRORS, SERVICE_RULES, ApiError
from socialpub.web.api.catalogue import error_bodies, platform_body, rule_bodies
from socialpub.web.http import Call, Reply
from socialpub.web.pages import html

FIELD_MAX = 200


def page(template: str, **values: Any) -> Reply:
    return Reply(html.render(template, version=__version__, **values), content_type="text/html; charset=utf-8")


async def index(call: Call) -> Reply:
    """GET /docs: where everything is."""
    base = call.service.base_url
    return page(
        "docs/index.html",
        errors=error_bodies(base),
        rules=rule_bodies(base),
        platforms=[platform_body(call.service, row) for row in platforms.PLATFORMS.values()],
    )


async def error(call: Call) -> Reply:
    """GET /docs/errors/{code}."""
    row = ERRORS.get(call.path_value("code"))
    if row is None:
        raise ApiError("not_found", "There is no such error code.")
    rules = [rule for rule in rule_bodies(call.service.base_url) if _code_of(rule) == row.code]
    return page("docs/error.html", error=row, rules=rules)


def _code_of(rule: dict[str, Any]) -> str:
    if rule["rule"] in SERVICE_RULES:
        return SERVICE_RULES[rule["rule"]].code
    return platforms.CATALOGUE[rule["rule"]].code


async def rule(call: Call) -> Reply:
    """GET /docs/rules/{rule}: a catalogue row, or the generic page of a request field."""
    name = unquote(call.path_value("rule"))
    row = next((rule for rule in rule_bodies(call.service.base_url) if rule["rule"] == name), None)
    if row is not None:
        return page("docs/rule.html", rule=row, code=_code_of(row))
    if len(name) > FIELD_MAX:
        raise ApiError("not_found", "There is no such rule.")
    shown = ".".join("N" if part.isdigit() else part for part in name.split("."))
    return page("docs/field.html", field=shown)


async def stylesheet(call: Call) -> Reply:
    """GET /static/style.css."""
    text = (shipped("templates") / "static" / "style.css").read_text(encoding="utf-8")
    return Reply(text, content_type="text/css; charset=utf-8", headers={"Cache-Control": "public, max-age=3600"})


async def events(call: Call) -> Reply:
    """GET /docs/events: every event and its data."""
    raise ApiError("not_found")


async def settings(call: Call) -> Reply:
    """GET /docs/settings: every setting with its default."""
    raise ApiError("not_found")
