"""Routes of the documentation, the OpenAPI document and static files."""

from __future__ import annotations

from socialpub.web.docs import guides, pages, reference
from socialpub.web.http.handler import GET, Route

# fmt: off
ROUTES: tuple[Route, ...] = (
    Route(GET, "/openapi.json", reference.serve_document, constant=True),
    Route(GET, "/llms.txt", pages.serve_llms_text, constant=True),
    Route(GET, "/docs", pages.show_index, constant=True),
    Route(GET, "/docs/start", pages.show_start, constant=True),
    Route(GET, "/docs/guides/<guide:str>", guides.show_guide, constant=True),
    Route(GET, "/docs/reference", reference.show_index, constant=True),
    Route(GET, "/docs/reference/<part:str>", reference.show_part, constant=True),
    Route(GET, "/docs/reference/operations/<operation:str>", reference.show_operation, constant=True),
    Route(GET, "/docs/reference/schemas/<schema:str>", reference.show_schema, constant=True),
    Route(GET, "/docs/events", reference.show_events, constant=True),
    Route(GET, "/docs/events/<event:str>", reference.show_event, constant=True),
    Route(GET, "/docs/options", reference.show_options, constant=True),
    Route(GET, "/docs/settings", pages.show_settings, constant=True),
    Route(GET, "/docs/commands", pages.show_commands, constant=True),
    Route(GET, "/docs/ui", pages.show_ui, constant=True),
    Route(GET, "/docs/platforms/<platform:str>", pages.show_platform, constant=True),
    Route(GET, "/docs/errors/<code:str>", pages.show_error, constant=True),
    Route(GET, "/docs/rules", pages.show_rules, constant=True),
    Route(GET, "/docs/rules/<rule:path>", pages.show_rule, constant=True),
    Route(GET, "/static/<name:str>", pages.serve_static, constant=True),
)
# fmt: on
