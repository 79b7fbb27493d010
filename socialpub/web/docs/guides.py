"""/docs/guides: what people come for, each with code in several languages."""

from __future__ import annotations

from typing import NamedTuple

from socialpub.base.errors import ApiError
from socialpub.web.html.templates import read_source, render_page
from socialpub.web.http.handler import HandlerResponse, RequestContext

LANGUAGES = {"Shell": "sh", "Python": "py", "TypeScript": "mts"}
"""The languages of the guides' code, and the endings of its files."""


class Guide(NamedTuple):
    """Guide at /docs/guides/NAME; its code is in `templates/docs/guides/NAME`."""

    name: str
    title: str
    summary: str


GUIDES = {
    guide.name: guide
    for guide in (
        Guide("retries", "Publish safely with retries", "Send again after a timeout, and publish once."),
        Guide("calendar-in-git", "A calendar in git", "A file of scheduled posts; the merge is the approval."),
        Guide("assistant", "An assistant that cannot publish by accident", "It plans; a person publishes the plan."),
        Guide("webhooks", "Receive webhooks", "Check signatures, and act on each event once."),
        Guide("moving", "Move here", "Bring a queue of scheduled posts from another tool."),
        Guide("sandbox", "The simulator as a sandbox", "Try your program against platforms that fail."),
    )
}


async def show_guide(call: RequestContext) -> HandlerResponse:
    """GET /docs/guides/{guide}. Raises ApiError `not_found`."""
    guide = GUIDES.get(call.path_value("guide"))
    if guide is None:
        raise ApiError("not_found", "There is no such guide.")
    base = call.service.base_url
    return render_page(f"docs/guides/{guide.name}.html", guide=guide, base=base, code=read_code(guide.name))


def read_code(name: str) -> dict[str, str]:
    """Return a guide's code by language."""
    return {language: read_source(f"docs/guides/{name}/{name}.{ending}") for language, ending in LANGUAGES.items()}
