"""Rules for every route: methods, HEAD, headers, and documented refusals.

One server answers all of it, since none of these requests leaves anything behind.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import httpx
import pytest

from socialpub.web.http.handler import Route
from socialpub.web.http.middleware import SECURITY_HEADERS
from socialpub.web.openapi import document as openapi
from socialpub.web.routes import ROUTES
from tests.support.app_server import UNKNOWN_ID, ApiClient, error_of, unchanged
from tests.support.openapi_document import response_of, schema_name
from tests.support.openapi_judge import ResponseJudge, sign_in
from tests.support.request_cast import RequestCast, make_picture
from tests.support.route_addresses import route_address


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left(corpus: RequestCast, browser: ApiClient) -> Iterator[None]:
    with unchanged(corpus.server):
        yield


@pytest.fixture(scope="module")
def judge(corpus: RequestCast) -> ResponseJudge:
    return ResponseJudge(corpus.server)


@pytest.fixture(scope="module")
def nobody(corpus: RequestCast) -> ApiClient:
    """Without a key."""
    return corpus.server.api()


@pytest.fixture(scope="module")
def browser(corpus: RequestCast) -> ApiClient:
    """Alice, signed in."""
    return corpus.server.api(**sign_in(corpus.server, corpus.alice))


PATHS = sorted({route.path for route in ROUTES})
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def allowed(path: str) -> set[str]:
    methods = {route.method for route in ROUTES if route.path == path} | {"OPTIONS"}
    return methods | ({"HEAD"} if "GET" in methods else set())


def test_options_names_the_methods_without_a_key(nobody: ApiClient) -> None:
    for path in PATHS:
        answer = nobody.options(route_address(path))
        assert (answer.status_code, answer.content) == (204, b""), path
        assert answer.headers["Allow"] == ", ".join(sorted(allowed(path))), path
        assert not [name for name in answer.headers if name.startswith("access-control")], path


def test_the_body_of_get_and_options_is_read_and_dropped(
    nobody: ApiClient, browser: ApiClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Sanic logs an error for each unread body of a request that succeeds."""
    for path in PATHS:
        for api, method in ((nobody, "OPTIONS"), (nobody, "GET"), (browser, "GET")):
            if method in allowed(path):
                api.request(method, route_address(path), content=b"x" * 1000)
    assert [record.getMessage() for record in caplog.records if record.name.startswith("sanic.error")] == []


@pytest.mark.slow
def test_a_wrong_method_is_405_with_allow_before_any_key(nobody: ApiClient) -> None:
    for path in PATHS:
        for method in set(METHODS) - allowed(path):
            answer = nobody.request(method, route_address(path))
            assert answer.status_code == 405, (method, path)
            assert answer.headers["Allow"] == ", ".join(sorted(allowed(path))), (method, path)
            if method != "HEAD":
                assert (error_of(answer)["code"], error_of(answer)["rule"]) == ("validation_failed", "http.method")


@pytest.mark.slow
def test_head_is_get_without_a_body(corpus: RequestCast) -> None:
    for path in PATHS:
        if "GET" not in allowed(path):
            continue
        get, head = corpus.alice.api.get(route_address(path)), corpus.alice.api.head(route_address(path))
        assert (head.content, head.status_code) == (b"", get.status_code), path
        for name in ("Content-Type", "Content-Length"):
            if get.status_code == 200:
                assert head.headers[name] == get.headers[name], (name, path)


@pytest.mark.matrix
@pytest.mark.parametrize("path", PATHS)
def test_the_answers_of_every_route_forbid_it_whoever_asks(path: str, nobody: ApiClient, corpus: RequestCast) -> None:
    asked = [(api, method) for api in (nobody, corpus.alice.api) for method in ("GET", "POST", "TRACE")]
    for api, method in asked:
        body = b"?" if method == "POST" else None  # a draft may be empty, but not this
        evil = {"Origin": "https://evil.example"}
        headers = api.request(method, route_address(path), content=body, headers=evil).headers
        assert {name: headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS, method
        assert headers["Cache-Control"], method
        policy = headers["Content-Security-Policy"].split("; ")
        assert {"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} <= set(policy)
        assert "unsafe" not in headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.method != "GET" and not route.is_oauth], ids=schema_name
)
def test_a_packed_body_is_415_and_nothing_is_read(
    route: Route, corpus: RequestCast, nobody: ApiClient, browser: ApiClient, judge: ResponseJudge
) -> None:
    """Whatever it is: JSON, a form, or a file. (A form of somebody unknown is read, to be kept for after sign-in.)"""
    caller = {"open": nobody, "key": corpus.alice.api, "read": corpus.alice.api}.get(route.guard, browser)
    headers = {"Content-Encoding": "gzip", "Content-Type": "multipart/form-data; boundary=x"}
    answer = caller.request(route.method, route_address(route.path), content=b"\x1f\x8b", headers=headers)
    error = error_of(answer)
    assert (answer.status_code, error["rule"]) == (415, "http.content_encoding")
    assert "gzip" in error["message"]
    assert "without a Content-Encoding" in error["remediation"]
    assert answer.headers["Accept-Encoding"] == "identity"
    if route.body is not None or (route.is_api and route.receive is not None):
        judge(answer, status=415)


# --- Held to the document -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.is_api and route.guard == "session"], ids=schema_name
)
def test_a_key_on_an_operation_of_people_is_a_documented_403(
    corpus: RequestCast, judge: ResponseJudge, route: Route
) -> None:
    judge(corpus.alice.api.request(route.method, re.sub("<[^>]+>", UNKNOWN_ID, route.path)), status=403)


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.is_api and route.guard == "session"], ids=schema_name
)
def test_a_missing_csrf_token_is_a_documented_403(
    nobody: ApiClient, browser: ApiClient, judge: ResponseJudge, route: Route
) -> None:
    cookie = {"Cookie": browser.headers["Cookie"]}
    if route.method == "GET":
        judge(nobody.get(route.path, headers=cookie), status=200)
    else:
        path = re.sub("<[^>]+>", UNKNOWN_ID, route.path)
        judge(nobody.request(route.method, path, json={}, headers=cookie), status=403)


@pytest.mark.parametrize("route", [route for route in ROUTES if route.is_api and "<" in route.path], ids=schema_name)
def test_an_unknown_id_is_a_documented_404(
    corpus: RequestCast, browser: ApiClient, judge: ResponseJudge, route: Route
) -> None:
    said = response_of(route)
    body = next(iter(said.requests.values()), None)
    caller = browser if route.guard == "session" else corpus.alice.api
    headers = {"If-Match": '"x"'} if route.if_match else {}
    address = re.sub("<[^>]+>", UNKNOWN_ID, route.path)
    judge(caller.request(route.method, address, json=body, headers=headers), status=404)


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.is_api and route.guard != "open"], ids=schema_name
)
def test_nobody_gets_a_documented_401(nobody: ApiClient, judge: ResponseJudge, route: Route) -> None:
    judge(nobody.request(route.method, re.sub("<[^>]+>", UNKNOWN_ID, route.path)), status=401)


# --- In the log ------------------------------------------------------------------------------------------------------

WRITES = [route for route in ROUTES if route.method != "GET"]


def ask(api: httpx.Client, route: Route, request_id: str) -> httpx.Response:
    path = re.sub(r"<platform:str>", "bluesky", route.path)
    path = re.sub(r"<\w+:str>", UNKNOWN_ID, path)
    return api.request(route.method, path, content=b'{"nope": 1}', headers={"X-Request-Id": request_id})


@pytest.mark.matrix
@pytest.mark.parametrize("route", WRITES, ids=lambda route: f"{route.method} {openapi.public_path(route.path)}")
def test_every_verb_logs_one_line_with_caller_and_address(
    route: Route, corpus: RequestCast, nobody: ApiClient, browser: ApiClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "socialpub")
    callers: dict[str, ApiClient] = {
        f"key {corpus.alice.key_id}": corpus.alice.api,
        "user": browser,
        "anonymous": nobody,
    }
    for number, (who, api) in enumerate(callers.items()):
        answer = ask(api, route, f"the-act-{number}")
        said = [record.getMessage() for record in caplog.records if record.name == "socialpub.web"]
        (line,) = [line for line in said if f"the-act-{number} " in line]
        known = who if route.is_api or who == "anonymous" else "(anonymous|user)"
        known = "anonymous" if route.guard == "key" and who == "user" else known
        known = "anonymous" if route.guard in ("open", "page") and who.startswith("key") else known
        assert re.search(rf" {answer.status_code} \d+ms by {known}.* from 127\.0\.0\.1", line), line
        if answer.is_error and "json" in answer.headers["Content-Type"]:
            assert f": {answer.json()['error']['code']}" in line
        assert api.key is None or api.key not in line


@pytest.mark.parametrize("query", ["nope=1", "profileId=a&profileId=b"])
def test_the_query_of_every_write_of_the_api_is_checked(corpus: RequestCast, browser: ApiClient, query: str) -> None:
    for route in WRITES:
        if not route.is_api:
            continue
        path = re.sub(r"<\w+:str>", UNKNOWN_ID, re.sub(r"<platform:str>", "bluesky", route.path))
        api = browser if route.guard == "session" else corpus.alice.api
        how = {"files": {"file": ("a.jpg", make_picture("JPEG"))}} if route.receive else {"content": b"{}"}
        kind = {} if route.receive else {"Content-Type": "application/json"}
        answer = api.request(route.method, f"{path}?{query}", headers=kind, **how)
        name = query.partition("=")[0]
        assert (answer.status_code, answer.json()["error"].get("rule")) == (400, name), (route.method, route.path)


BODILESS = [route for route in WRITES if route.is_api and route.method == "POST" and route.body is None]


@pytest.mark.parametrize("route", [route for route in BODILESS if not route.receive], ids=schema_name)
def test_a_field_of_a_body_that_is_not_taken_is_refused(corpus: RequestCast, route: Route) -> None:
    """Ignored, a time would let a draft be published now."""
    answer = corpus.alice.api.post(route_address(route.path), json={"scheduledAt": "2030-01-01T00:00:00Z"})
    error = error_of(answer)
    assert (answer.status_code, error["code"], error["rule"]) == (400, "validation_failed", "scheduledAt")
    assert "this request takes no fields in its body; nothing was done" in error["message"]
    for empty in (b"", b"{}", b" {} "):
        headers = {"If-Match": '"x"'}
        assert corpus.alice.api.post(route_address(route.path), content=empty, headers=headers).status_code == 404
