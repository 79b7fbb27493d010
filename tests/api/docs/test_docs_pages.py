"""Documentation pages: complete entries, working links, escaped input."""

from __future__ import annotations

import html
import json
import re
from urllib.parse import quote, urldefrag

import click
import httpx
import pytest

from socialpub import platforms
from socialpub.base.config import Settings
from socialpub.base.error_codes import ERRORS
from socialpub.base.service_rules import SERVICE_RULES
from socialpub.commands.command_table import build_root
from socialpub.domain.accounts.connect import build_redirect_uri
from socialpub.domain.schemas.events import EVENTS
from socialpub.web.docs import pages as docs
from socialpub.web.docs import reference
from socialpub.web.docs.guides import GUIDES, read_code
from socialpub.web.html import templates
from socialpub.web.html.templates import read_source
from socialpub.web.openapi.field_descriptions import FIELD_DESCRIPTIONS
from socialpub.web.routes import ROUTES
from socialpub_client.commands.exit_codes import MEANINGS
from tests.support.app_server import ApiClient, AppServer, Person
from tests.support.openapi_document import DOCUMENT, schema_name
from tests.support.parsed_pages import BROWSER, CONSOLES, ParsedPage, crawl_pages, read_code_blocks
from tests.support.request_cast import RequestCast

PAGES = [
    "/docs",
    "/docs/start",
    "/docs/reference",
    "/docs/reference/posts",
    "/docs/reference/schemas",
    "/docs/reference/schemas/Post",
    "/docs/reference/operations/settlePost",
    "/docs/events",
    "/docs/events/post.published",
    "/docs/options",
    "/docs/commands",
    "/docs/settings",
    "/docs/ui",
    "/docs/errors/not_found",
    "/docs/rules",
    "/docs/rules/cursor",
    *(f"/docs/guides/{name}" for name in GUIDES),
    *(f"/docs/platforms/{name}" for name in platforms.PLATFORMS),
]
PAGE_BYTES_MAX = 60_000
NO_PAGES = (
    "/",
    "/openapi.json",
    "/llms.txt",
    "/static/style.css",
    "/static/icon.svg",
    "/static/icons.svg",
    "/static/page.js",
)  # the first is the dashboard's, behind a sign-in


@pytest.fixture(scope="module")
def server(corpus: RequestCast) -> AppServer:
    """One for all of them, who only read."""
    return corpus.server


@pytest.fixture(scope="module")
def alice(corpus: RequestCast) -> Person:
    return corpus.alice


@pytest.fixture(scope="module")
def api(server: AppServer) -> ApiClient:
    return server.api()


@pytest.fixture(scope="module")
def crawled(api: ApiClient) -> dict[str, ParsedPage]:
    """Every page that can be reached."""
    return dict(crawl_pages(api))


def fetch(api: ApiClient, path: str) -> ParsedPage:
    response = api.get(path, headers=BROWSER)
    assert response.status_code == 200, path
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    return ParsedPage(response.text)


# --- Complete ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_error_code_and_every_rule_has_its_page(api: ApiClient, crawled: dict[str, ParsedPage]) -> None:
    for code, row in ERRORS.items():
        assert row.message.replace("`", "") in crawled[f"/docs/errors/{code}"].text
    for rule in api.get("/v1/rules").json()["data"]:
        shown = crawled["/docs/rules/" + rule["rule"]]
        assert rule["message"].replace("`", "") in shown.text, rule["rule"]
        assert rule["remediation"].replace("`", "") in shown.text, rule["rule"]
        assert rule["source"] in shown.text, rule["rule"]


def test_rule_shared_by_platform_and_service_is_listed_once(api: ApiClient) -> None:
    rules = [rule["rule"] for rule in api.get("/v1/rules").json()["data"]]
    assert sorted(rules) == sorted({*SERVICE_RULES, *platforms.CATALOGUE})
    assert docs.list_codes("pinterest.board.unknown") == ["platform_rejected", "validation_failed"]
    links = fetch(api, "/docs/rules/pinterest.board.unknown").links
    assert {"/docs/errors/platform_rejected", "/docs/errors/validation_failed"} <= set(links)


def test_every_code_stands_in_the_index_and_every_rule_on_a_page_of_it(crawled: dict[str, ParsedPage]) -> None:
    index = crawled["/docs"].links
    assert {f"/docs/errors/{code}" for code in ERRORS} <= set(index)
    pages = {urldefrag(link)[0] for link in index if link.endswith("#rules") or link == "/docs/rules"}
    rules = {link for page in pages for link in crawled[page].links if link.startswith("/docs/rules/")}
    assert rules == {f"/docs/rules/{rule}" for rule in (*SERVICE_RULES, *platforms.CATALOGUE)}


def test_every_page_is_small(crawled: dict[str, ParsedPage]) -> None:
    sizes = {path: page.size for path, page in crawled.items()}
    assert sizes.keys() > {"/docs/reference/schemas/Post", "/docs/reference/operations/settlePost"}
    assert [(path, size) for path, size in sizes.items() if size >= PAGE_BYTES_MAX] == []


def test_llms_txt_is_a_short_text_whose_links_work(api: ApiClient, server: AppServer) -> None:
    response = api.get("/llms.txt")
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert len(response.content) < 10_000
    text, base = response.text, server.service.base_url
    assert text.startswith("# socialpub ")
    assert "&" not in text
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert {f"{base}/docs/platforms/{name}" for name in platforms.PLATFORMS} < set(links)
    assert {api.get(link.removeprefix(base), headers=BROWSER).status_code for link in links} == {200}
    assert all(f"`{code}`" in text for code in ERRORS)
    operations = re.findall(r"^- `([A-Z]+) (/v1/\S+)`", text, re.MULTILINE)
    assert ("POST", "/v1/posts") in operations
    assert all(method.lower() in DOCUMENT["paths"][path] for method, path in operations)


def test_every_command_over_the_api_has_its_entry(api: ApiClient) -> None:
    shown = fetch(api, "/docs/commands")
    root = build_root()
    groups = {name: root.commands[name] for name in ("posts", "media", "accounts", "webhooks")}
    single = {"login", "whoami", "logout", "post", "events", "api", "apply", "mcp", "listen", "trigger"}
    below = set()
    for name, group in groups.items():
        assert isinstance(group, click.Group)
        below |= {f"{name}-{one}" for one in group.commands}
    assert single | below == set(shown.ids) - {"common", "exit-codes", "content", "end"}
    text = "".join(shown.text.split())
    rows = [f"{code} {meaning}" for code, meaning in MEANINGS.items()]
    rows.append("--external-id TEXT your own id: the same post again with it is not published twice")
    assert [row for row in rows if "".join(row.split()) not in text] == []
    assert "/docs/commands" in fetch(api, "/docs").links


def test_every_event_has_its_entry(api: ApiClient) -> None:
    shown = fetch(api, "/docs/events")
    assert set(EVENTS) <= set(shown.ids)
    assert [kind.text for kind in EVENTS.values() if kind.text.replace("`", "") not in shown.text] == []
    for name in EVENTS:
        assert f'"type": "{name}"' in fetch(api, f"/docs/events/{name}").text


def test_the_events_page_says_whether_this_version_delivers_them(api: ApiClient) -> None:
    shown = fetch(api, "/docs/events").text
    delivers = any(route.path == "/v1/webhook-endpoints" for route in ROUTES)
    assert ("does not deliver them yet" in shown) != delivers


def test_every_option_has_its_row_with_limits_and_sources(api: ApiClient) -> None:
    shown = api.get("/docs/options", headers=BROWSER).text
    sections = {part.split('"', 1)[0]: part for part in shown.split('<section aria-labelledby="')[1:]}
    assert list(sections) == list(platforms.PLATFORMS)
    for name, platform in platforms.PLATFORMS.items():
        options = [field.alias for field in platform.options.model_fields.values() if field.alias != "platform"]
        rows = re.findall(r'<th scope="row"><code>(.*?)</code>', sections[name])
        assert (rows, bool(platform.options.SOURCE)) == (options, True)
        assert html.escape(platform.options.SOURCE) in sections[name]
        for rule in platform.rules:
            for option in re.findall(r"`options\.(\w+)`", rule.message + rule.remediation):
                assert option in options, rule.id
                assert f"/docs/rules/{rule.id}" in sections[name]
                assert html.escape(rule.source) in sections[name]
    for limit in ("3 collaborators", "60 seconds", "at most 20", "90 utf16"):
        assert limit in shown, limit


def test_every_setting_has_its_entry_and_words(api: ApiClient) -> None:
    ids = fetch(api, "/docs/settings").ids
    for section in docs.list_settings():
        for setting in section["settings"]:
            assert f"{section['name']}.{setting['name']}" in ids
            assert setting["description"], (section["name"], setting["name"])
    named = {section["name"] for section in docs.list_settings()}
    assert {name for name in Settings.model_fields if name != "platforms"} <= named
    assert {f"platforms.{name}" for name in platforms.PLATFORMS} <= named


def test_the_settings_page_shows_no_value_in_use(api: ApiClient, server: AppServer) -> None:
    shown = fetch(api, "/docs/settings").text
    assert str(server.home) not in shown
    assert "127.0.0.1" in shown  # the default host


def test_every_operation_and_schema_stands_in_the_reference(api: ApiClient, crawled: dict[str, ParsedPage]) -> None:
    shown = crawled["/docs/reference"]
    operations = [entry for methods in DOCUMENT["paths"].values() for entry in methods.values()]
    assert {entry["operationId"] for entry in operations} <= set(shown.ids)
    assert set(DOCUMENT["components"]["schemas"]) <= set(shown.ids)
    listed = crawled["/docs/reference/schemas"]
    for name, schema in DOCUMENT["components"]["schemas"].items():
        assert name in listed.ids
        page = crawled[f"/docs/reference/schemas/{name}"].text
        assert [field for field in schema.get("properties", {}) if field not in page] == []
    for path, methods in DOCUMENT["paths"].items():
        assert path in shown.text
        for entry in methods.values():
            part = crawled[f"/docs/reference/{reference.to_slug(entry['tags'][0])}"]
            assert entry["operationId"] in part.ids
            page = crawled[f"/docs/reference/operations/{entry['operationId']}"].text
            assert path in page
            assert entry["summary"] in page
    for unknown in ("reference/none", "reference/schemas/None", "reference/operations/none", "events/none"):
        assert api.get(f"/docs/{unknown}").status_code == 404


def test_every_field_and_parameter_has_a_meaning(api: ApiClient) -> None:
    for name, schema in DOCUMENT["components"]["schemas"].items():
        for field, value in schema.get("properties", {}).items():
            assert value.get("description"), f"{name}.{field}"
    for path, methods in DOCUMENT["paths"].items():
        for method, entry in methods.items():
            for parameter in entry.get("parameters", []):
                assert "$ref" in parameter or parameter.get("description"), (path, method, parameter["name"])
    for path in ("/docs/events", "/docs/settings", "/docs", *PAGES):
        assert empty_meanings(api.get(path, headers=BROWSER).text) == [], path


def empty_meanings(page: str) -> list[str]:
    """The first cells of rows whose last cell is empty, in tables whose last column is called Meaning."""
    tables = re.findall(r"<table>(.*?)</table>", page, re.DOTALL)
    rows = [row for table in tables if ">Meaning</th></tr>" in table for row in re.findall(r"<tr.*?</tr>", table)]
    return [row for row in rows if re.search(r"<td[^>]*>\s*</td></tr>$", row)]


def test_words_of_fields_that_no_schema_has_are_removed() -> None:
    named = {
        (name, field)
        for name, schema in DOCUMENT["components"]["schemas"].items()
        for field in schema.get("properties", {})
    }
    known = {f"{name}.{field}" for name, field in named} | {field for _, field in named}
    assert set(FIELD_DESCRIPTIONS) - known == set()


def test_long_pages_are_compressed_for_clients_that_take_gzip(server: AppServer) -> None:
    with httpx.Client(base_url=server.url, trust_env=False) as client:
        for path in (
            "/docs/reference/operations/publishPosts",
            "/docs/reference/schemas",
            "/openapi.json",
            "/static/style.css",
        ):
            plain = client.get(path, headers={"Accept-Encoding": "identity"})
            packed = client.get(path, headers={"Accept-Encoding": "br, gzip;q=0.5"})
            assert "Content-Encoding" not in plain.headers
            assert packed.headers["Content-Encoding"] == "gzip"
            assert plain.headers["Vary"] == packed.headers["Vary"] == "Accept-Encoding"
            assert packed.content == plain.content
            assert int(packed.headers["Content-Length"]) * 2 < len(plain.content)
            assert packed.headers["ETag"] != plain.headers["ETag"]
            known = {"If-None-Match": packed.headers["ETag"], "Accept-Encoding": "gzip"}
            assert client.get(path, headers=known).status_code == 304
        refused = client.get("/docs/reference/posts", headers={"Accept-Encoding": "gzip;q=0, identity"})
        assert "Content-Encoding" not in refused.headers


def test_every_code_block_has_a_copy_button(crawled: dict[str, ParsedPage]) -> None:
    for path, page in crawled.items():
        blocks = [attributes for tag, attributes in page.tags if tag == "pre"]
        buttons = [attributes for tag, attributes in page.tags if tag == "button" and "data-copy" in attributes]
        assert len(blocks) == len(buttons), path


def test_every_block_of_every_page_is_one_that_is_tested(
    api: ApiClient, server: AppServer, crawled: dict[str, ParsedPage]
) -> None:
    """`test_docs_code.py` runs command lines, another file the verifiers; every other block must be JSON."""
    document = api.get("/openapi.json").json()
    tested = {
        request["curl"]
        for path, methods in document["paths"].items()
        for method, entry in methods.items()
        for request in reference.build_operation_view(document, method.upper(), path, entry)["requests"]
    }
    start = docs.build_start_code(server.service.base_url)
    code = [*start.values(), "".join(start[name] for name in docs.INDEX_FILES)]
    code += [read_source(f"docs/verifiers/{file}") for file in reference.VERIFIERS.values()]
    code += [text for name in GUIDES for text in read_code(name).values()]
    tested |= {text.strip("\n") for text in code}
    tested |= {build_redirect_uri(server.service, row) for row in platforms.PLATFORMS.values() if row.oauth}
    assert len(crawled) > 100
    for page in crawled.values():
        for block in read_code_blocks(page.source):
            if block not in tested:
                json.loads(block)


@pytest.mark.parametrize("name", platforms.PLATFORMS)
def test_every_platform_has_its_page_with_its_limits_and_rules(api: ApiClient, name: str) -> None:
    row = platforms.PLATFORMS[name]
    shown = fetch(api, f"/docs/platforms/{name}")
    (limits,) = [each for each in api.get("/v1/platforms").json()["data"] if each["platform"] == name]
    assert row.connection_lifetime in shown.text
    for words in (f"{limits['text']['limit']:,} ", limits["apiVersion"], *limits["media"]["types"]):
        assert words in shown.text, words
    assert {f"/docs/rules/{rule}" for rule, at in platforms.CATALOGUE.items() if at.platform == name} <= set(
        shown.links
    )
    assert f"/docs/platforms/{name}" in fetch(api, "/docs").links


@pytest.mark.parametrize("name", [name for name, row in platforms.PLATFORMS.items() if row.oauth])
def test_a_platform_that_wants_an_app_says_what_its_console_asks_for(
    api: ApiClient, server: AppServer, name: str
) -> None:
    row = platforms.PLATFORMS[name]
    shown = fetch(api, f"/docs/platforms/{name}")
    assert row.oauth is not None
    assert row.console is not None
    assert f"{server.service.base_url}/connect/{name}/callback" in shown.text
    assert row.console.url in shown.links
    assert ("a", {"href": row.console.url, "rel": "noreferrer"}) in shown.tags
    names = (row.console.id_name, row.console.secret_name, row.console.redirect_name)
    for words in (*row.oauth.scopes, *row.console.products, *names, row.console.review.replace("`", "")):
        assert words in shown.text, words


def test_a_platform_without_a_page_is_unknown(api: ApiClient) -> None:
    for name in ("myspace", "%2e%2e", "<b>", "x" * 5000):
        assert api.get(f"/docs/platforms/{name}").status_code == 404


# --- Links -------------------------------------------------------------------------------------------------------


def test_every_link_of_every_page_leads_somewhere_on_this_server(
    api: ApiClient, crawled: dict[str, ParsedPage]
) -> None:
    pages = crawled
    symbols = ParsedPage(api.get("/static/icons.svg").text).ids
    assert len(pages) > len(ERRORS) + len(SERVICE_RULES) + len(platforms.CATALOGUE)
    for path, page in pages.items():
        assert len(page.ids) == len(set(page.ids)), path
        for link in set(page.links) - CONSOLES:
            target, anchor = urldefrag(link)
            target = target or path
            assert target in pages or target in NO_PAGES, (path, link)
            assert not anchor or anchor in (symbols if target == "/static/icons.svg" else pages[target].ids), (
                path,
                link,
            )


def test_the_links_of_an_error_answer_200(api: ApiClient) -> None:
    error = api.get("/v1/posts?limit=0", headers={"Authorization": "Bearer nonsense"}).json()["error"]
    assert api.get(error["docUrl"]).status_code == 200


@pytest.mark.parametrize("field", ["x" * 300, "🙂" * 250, "a/b c%<é>", "a.b", "a\\b", "%2e", "tab\there"])
def test_the_links_of_a_refused_field_answer_200_whatever_its_name(api: ApiClient, alice: Person, field: str) -> None:
    error = alice.api.post("/v1/posts", json={"targets": [], field: 1}).json()["error"]
    assert error["rule"] == (field if len(field) <= 100 else field[:100] + "…")
    assert api.get(error["docUrl"]).status_code == 200
    assert api.get(error["ruleUrl"]).status_code == 200


# --- Fields ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["targets.3.text", "limit", "nächstes", "a b", "x" * 200, "a/b", "ß" * 200])
def test_a_path_that_is_no_rule_gets_the_page_of_a_field(api: ApiClient, path: str) -> None:
    shown = fetch(api, "/docs/rules/" + quote(path, safe="."))
    assert path.replace("3", "N") in shown.text


def test_a_path_of_more_than_200_characters_is_unknown(api: ApiClient) -> None:
    assert api.get("/docs/rules/" + "x" * 201).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "{{7*7}}",
        "'onmouseover='x",
        "</code><b>",
        "%3Cb%3E",
    ],
)
def test_a_field_page_shows_what_it_was_asked_for_and_runs_nothing(api: ApiClient, path: str) -> None:
    response = api.get("/docs/rules/" + quote(path, safe=""))
    page = ParsedPage(response.text)
    assert path in page.text
    assert [tag for tag, _ in page.tags if tag in ("img", "b")] == []
    assert [attributes["src"] for tag, attributes in page.tags if tag == "script"] == ["/static/page.js"]
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]


def test_our_own_markup_escapes_before_it_marks_up() -> None:
    assert templates.render_inline("a `<b>` **c** <i>") == "a <code>&lt;b&gt;</code> <strong>c</strong> &lt;i&gt;"
    assert templates.render_prose("one\n\n`two`") == "<p>one</p>\n<p><code>two</code></p>"


# --- Form --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES)
def test_a_page_needs_nothing_from_elsewhere_and_has_no_inline_code(api: ApiClient, path: str) -> None:
    page = fetch(api, path)
    assert [link for link in page.links if re.match(r"[a-z]+:|//", link) and link not in CONSOLES] == []
    assert [attributes for tag, attributes in page.tags if tag == "script"] == [
        {"src": "/static/page.js", "defer": None}
    ]
    assert [tag for tag, _ in page.tags if tag in ("style", "iframe", "object")] == []
    inline = [name for _, attributes in page.tags for name in attributes if name == "style" or name.startswith("on")]
    assert inline == []


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_landmarks_one_title_ordered_headings_and_named_tables(api: ApiClient, path: str) -> None:
    page = fetch(api, path)
    names = [tag for tag, _ in page.tags]
    assert ("html", {"lang": "en"}) in page.tags
    assert [names.count(tag) for tag in ("main", "header", "footer", "h1", "title")] == [1, 1, 1, 1, 1]
    levels = [int(tag[1]) for tag in names if re.fullmatch("h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))
    assert names.count("caption") == names.count("table")
    assert [attributes for tag, attributes in page.tags if tag == "th" and "scope" not in attributes] == []
    for _, attributes in page.tags:
        if attributes.get("role") == "region":
            assert attributes.get("aria-label")
            assert attributes.get("tabindex") == "0"


def test_the_pages_work_without_a_key_and_are_not_counted(api: ApiClient) -> None:
    response = api.get("/docs/reference")
    assert response.status_code == 200
    assert "X-RateLimit-Limit" not in response.headers


def test_a_browser_gets_an_error_page_and_a_program_the_envelope(api: ApiClient) -> None:
    response = api.get("/docs/rules/" + "<" * 201, headers=BROWSER)
    assert response.status_code == 404
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    page = ParsedPage(response.text)
    assert "There is no such rule." in page.text
    assert response.headers["X-Request-Id"] in page.text
    assert "/docs/errors/not_found" in page.links
    assert api.get("/docs/nothing").json()["error"]["code"] == "not_found"
    assert api.get("/v1/nothing", headers=BROWSER).json()["error"]["code"] == "not_found"


def test_an_error_page_names_the_rule(api: ApiClient) -> None:
    response = api.post("/docs", headers=BROWSER)
    assert response.status_code == 405
    assert "/docs/rules/http.method" in ParsedPage(response.text).links


@pytest.mark.parametrize("name, type_", [("style.css", "text/css; charset=utf-8"), ("icon.svg", "image/svg+xml")])
def test_a_static_file_has_its_type_and_may_be_kept(api: ApiClient, name: str, type_: str) -> None:
    response = api.get(f"/static/{name}")
    assert response.status_code == 200
    assert response.headers["Content-Type"] == type_
    assert response.headers["Cache-Control"] == "public, max-age=3600"


@pytest.mark.parametrize(
    "name", ["nothing.css", "%2e%2e", "%2e%2e%2fbase.html", "..%2fbase.html", "%2fetc%2fpasswd", "style.css%00"]
)
def test_only_the_files_of_the_folder_are_served(api: ApiClient, name: str) -> None:
    assert api.get(f"/static/{name}").status_code == 404


# --- Words -------------------------------------------------------------------------------------------------------


def test_curl_line_takes_the_key_from_the_environment_and_quotes_the_body() -> None:
    line = reference.build_curl("POST", "https://x.test/v1/posts", [{"apiKey": []}], {"text": "it's"})
    assert line == (
        "curl -sS https://x.test/v1/posts \\\n"
        '  -H "Authorization: Bearer $SOCIALPUB_KEY" \\\n'
        '  -H "Idempotency-Key: $(date +%s)-$RANDOM" \\\n'
        '  -d \'{\n  "text": "it\'"\'"\'s"\n}\''
    )
    assert reference.build_curl("GET", "https://x.test/v1/rules", []) == "curl -sS https://x.test/v1/rules"
    assert reference.build_curl("DELETE", "https://x.test/v1/posts/1", [{"apiKey": []}]).startswith(
        "curl -sS -X DELETE "
    )


@pytest.mark.parametrize(
    "schema, words",
    [
        ({"type": "string", "format": "date-time"}, "string (date-time)"),
        ({"type": "integer", "minimum": 1, "maximum": 200, "default": 50}, "integer, 1 to 200, default 50"),
        ({"type": "string", "maxLength": 2048}, "string, at most 2,048 characters"),
        ({"type": "integer", "minimum": 0}, "integer, at least 0"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string or null"),
        ({"type": "array", "items": {"const": "a"}}, "array of <code>&#34;a&#34;</code>"),
        ({"$ref": "#/components/schemas/Post"}, '<a href="/docs/reference/schemas/Post">Post</a>'),
        ({}, "any value"),
    ],
)
def test_a_schema_in_a_few_words(schema: dict[str, object], words: str) -> None:
    assert reference.describe_schema(schema) == words


def test_who_may_call_in_words() -> None:
    assert reference.describe_callers([]) == "anyone"
    assert reference.describe_callers([{"apiKey": []}, {"session": []}]) == "API key or session cookie"
    assert reference.describe_callers([{"apiKey": ["media"]}]) == "API key with scope `media`"
    assert reference.describe_callers([{"session": [], "csrf": []}]) == "session cookie with CSRF token"


def test_every_page_of_the_route_table_is_tested_here() -> None:
    pages = {schema_name(route) for route in ROUTES if route.path.startswith("/docs")}
    assert pages == {
        "GET /docs",
        "GET /docs/start",
        "GET /docs/reference",
        "GET /docs/reference/{part}",
        "GET /docs/reference/operations/{operation}",
        "GET /docs/reference/schemas/{schema}",
        "GET /docs/events",
        "GET /docs/events/{event}",
        "GET /docs/options",
        "GET /docs/commands",
        "GET /docs/settings",
        "GET /docs/ui",
        "GET /docs/errors/{code}",
        "GET /docs/guides/{guide}",
        "GET /docs/rules",
        "GET /docs/rules/{rule}",
        "GET /docs/platforms/{platform}",
    }
