"""/docs: a page for every error code, rule, platform and setting."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from pydantic import BaseModel

from socialpub import __version__, platforms
from socialpub.base import json_codec
from socialpub.base.config import Settings
from socialpub.base.error_codes import ERRORS
from socialpub.base.errors import RULE_PATH_MAX, ApiError
from socialpub.base.service_rules import SERVICE_RULES
from socialpub.base.settings_docs import format_toml, get_help
from socialpub.base.settings_sections import SettingsSection
from socialpub.base.system.directories import find_shipped_directory
from socialpub.domain.accounts import connect
from socialpub.web.api.catalogue import error_bodies, platform_body, rule_bodies
from socialpub.web.docs import guides, reference
from socialpub.web.html.templates import find_symbols, read_source, render, render_page
from socialpub.web.http.handler import HandlerResponse, RequestContext

UNITS = {
    "graphemes": "visible characters (graphemes)",
    "weighted": "weighted characters",
    "utf16": "UTF-16 units",
    "characters": "Unicode characters",
}
STAGES = {
    "request": "In the request, before anything is stored.",
    "cheap": "In preflight, before anything is stored. One target that breaks the rule rejects the whole batch.",
    "deep": "For each target, after its media are loaded.",
    "upstream": "By the platform.",
    "connect": "When an account is connected.",
    "publish": "While the post is published.",
    "retired": "Nowhere. The rule is retired.",
}


START_FILES = (
    "environment.sh",
    "accounts.sh",
    "account.sh",
    "check.sh",
    "publish.sh",
    "schedule.sh",
    "events.py",
    "endpoint.sh",
    "receiver.py",
)
"""The code of /docs/start in the page's order, from `templates/docs/start`."""
INDEX_FILES = ("environment.sh", "account.sh")
"""Files of the first example of /docs: its environment variables."""


async def show_index(call: RequestContext) -> HandlerResponse:
    """GET /docs: the table of contents."""
    base, code = call.service.base_url, build_start_code(call.service.base_url)
    return render_page(
        "docs/index.html",
        version=__version__,
        environment="".join(code[name] for name in INDEX_FILES),
        first=code["publish.sh"],
        guides=list(guides.GUIDES.values()),
        errors=error_bodies(base),
        units=UNITS,
        platforms=[platform_body(call.service, row) for row in platforms.PLATFORMS.values()],
    )


LLMS_TAGS = ("Posts", "Batches", "Drafts", "Media", "Accounts", "Events")
"""The parts of the reference whose operations /llms.txt lists."""


async def serve_llms_text(call: RequestContext) -> HandlerResponse:
    """GET /llms.txt: what a language model needs to begin with, under 10 kB, as Markdown."""
    base = call.service.base_url
    text = render(
        "docs/llms.txt",
        base=base,
        guides=list(guides.GUIDES.values()),
        calls=reference.list_operations(call, LLMS_TAGS),
        errors=error_bodies(base),
        platforms=[platform_body(call.service, row) for row in platforms.PLATFORMS.values()],
        units=UNITS,
    )
    return HandlerResponse(text, content_type="text/plain; charset=utf-8")


async def show_start(call: RequestContext) -> HandlerResponse:
    """GET /docs/start: from a key to a published post and a webhook, with code that runs."""
    return render_page("docs/start.html", code=build_start_code(call.service.base_url))


def build_start_code(base_url: str) -> dict[str, str]:
    """Return the code of /docs/start by file name, with this server's address."""
    return {file: read_source(f"docs/start/{file}").replace("BASE_URL", base_url) for file in START_FILES}


async def show_rules(call: RequestContext) -> HandlerResponse:
    """GET /docs/rules: the service's own rules, and where each platform's are."""
    rules = [rule for rule in rule_bodies(call.service.base_url) if rule["platform"] is None]
    return render_page("docs/rules.html", rules=rules, platforms=list(platforms.PLATFORMS.values()))


async def show_error(call: RequestContext) -> HandlerResponse:
    """GET /docs/errors/{code}."""
    row = ERRORS.get(call.path_value("code"))
    if row is None:
        raise ApiError("not_found", "There is no such error code.")
    rules = [rule for rule in rule_bodies(call.service.base_url) if row.code in list_codes(rule["rule"])]
    return render_page("docs/error.html", error=row, rules=rules)


def list_codes(rule: str) -> list[str]:
    """Return the codes that come with a rule: two if it is the service's and a platform's."""
    rows = (platforms.CATALOGUE.get(rule), SERVICE_RULES.get(rule))
    return list(dict.fromkeys(row.code for row in rows if row is not None))


async def show_rule(call: RequestContext) -> HandlerResponse:
    """GET /docs/rules/{rule}: a rule, or the generic page of a request field."""
    name = unquote(call.path_value("rule"))
    row = next((rule for rule in rule_bodies(call.service.base_url) if rule["rule"] == name), None)
    if row is not None:
        label = platforms.PLATFORMS[row["platform"]].label if row["platform"] else ""
        return render_page("docs/rule.html", rule=row, codes=list_codes(name), label=label, stage=STAGES[row["stage"]])
    if len(name) > RULE_PATH_MAX:
        raise ApiError("not_found", "There is no such rule.")
    shown = ".".join("N" if part.isdigit() else part for part in name.split("."))
    return render_page("docs/field.html", field=shown)


async def show_platform(call: RequestContext) -> HandlerResponse:
    """GET /docs/platforms/{name}: what can be published, and how to register an app."""
    row = platforms.PLATFORMS.get(call.path_value("platform"))
    if row is None:
        raise ApiError("not_found", "There is no platform of this name.")
    return render_page(
        "docs/platform.html",
        platform=row,
        limits=platform_body(call.service, row),
        units=UNITS,
        redirect_uri=connect.build_redirect_uri(call.service, row),
        rules=[rule for rule in rule_bodies(call.service.base_url) if rule["platform"] == row.name],
    )


async def show_commands(call: RequestContext) -> HandlerResponse:
    """GET /docs/commands: the commands over the API, from their table by `make fix`."""
    return render_page("docs/commands.html", **json_codec.loads(read_source("docs/commands.json")))


STATIC_TYPES = {".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".js": "text/javascript; charset=utf-8"}


async def serve_static(call: RequestContext) -> HandlerResponse:
    """GET /static/{name}: a file of `templates/static`."""
    files = {file.name: file for file in (find_shipped_directory("templates") / "static").iterdir()}
    file = files.get(call.path_value("name"))
    if file is None:
        raise ApiError("not_found", "There is no such file.")
    headers = {"Cache-Control": "public, max-age=3600"}
    return HandlerResponse(file.read_text(encoding="utf-8"), content_type=STATIC_TYPES[file.suffix], headers=headers)


async def show_ui(call: RequestContext) -> HandlerResponse:
    """GET /docs/ui: the parts that pages are made of."""
    rows = list(platforms.PLATFORMS.values())
    return render_page("docs/ui.html", platforms=rows, icons=find_symbols(), drawings=find_symbols("d-"))


async def show_settings(call: RequestContext) -> HandlerResponse:
    """GET /docs/settings: every setting with its default."""
    return render_page("docs/settings.html", sections=list_settings())


def list_settings() -> list[dict[str, Any]]:
    """Return the settings' sections with defaults, platforms last; never the values in use."""
    return [{"name": name, "settings": _settings_of(name, model)} for name, model in list_sections().items()]


def _settings_of(section: str, model: type[BaseModel]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "variable": f"SOCIALPUB_{section.replace('.', '__')}__{name}".upper(),
            "default": format_toml(info.get_default(call_default_factory=True)),
            "description": get_help(model, name),
        }
        for name, info in model.model_fields.items()
    ]


def list_sections() -> dict[str, type[BaseModel]]:
    """Return the model of every section of the configuration file."""
    tables = {name: info.annotation for name, info in Settings.model_fields.items()}
    known = {
        name: model for name, model in tables.items() if isinstance(model, type) and issubclass(model, SettingsSection)
    }
    return known | {f"platforms.{name}": platform.site for name, platform in platforms.PLATFORMS.items()}
