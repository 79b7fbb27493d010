"""Shared Meta code: error mapping, hosts, scopes, app proof, text comparison."""

from __future__ import annotations

import hmac
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from socialpub.base.errors import ApiError
from socialpub.platforms import site
from socialpub.platforms.contract import Draft, DraftMedia, MediaFacts
from socialpub.platforms.facebook import connector as facebook
from socialpub.platforms.facebook import media_upload
from socialpub.platforms.instagram import connector as instagram
from socialpub.platforms.kit import oauth
from socialpub.platforms.meta.graph import get_wait_seconds, parse_fault, parse_time_ms
from socialpub.platforms.threads import connector as threads
from socialpub.simulator.contract import Call as Received
from socialpub.simulator.meta.multipart import form_of
from tests.support.platforms.meta_calls import graph_refusal, make_upstream
from tests.support.platforms.scripted_upstream import (
    NONCE,
    SITE,
    ExpectedCall,
    ScriptedTransport,
    check_finished,
    make_response,
)

MODULES = {"facebook": facebook, "instagram": instagram, "threads": threads}
# Rows that no error answer carries: decided while connecting, or by a container's own state.
ELSEWHERE = {
    "facebook.pages.none",
    "instagram.container.expired",
    "threads.container.expired",
}


@pytest.mark.parametrize("name", MODULES)
def test_rows_in_answers_exist_and_every_upstream_row_is_used(name: str) -> None:
    module: Any = MODULES[name]
    rows = {rule.id: rule for rule in module.PLATFORM.rules}
    carried = {found.rule for found in module.REPLIES.values() if found.rule}
    assert carried <= set(rows)
    assert {id for id, rule in rows.items() if rule.stage in ("upstream", "connect")} - ELSEWHERE <= carried


@pytest.mark.parametrize("name", MODULES)
def test_every_refusal_for_want_of_a_permission_says_what_to_do(name: str) -> None:
    module: Any = MODULES[name]
    for found in module.REPLIES.values():
        if found.code == "platform_auth_failed":
            assert found.rule or found.remediation


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("threads", {}, ("https://threads.com/oauth/authorize", "https://graph.threads.net/oauth/access_token")),
        ("threads", {"api_base": "http://lab"}, ("http://lab/oauth/authorize", "http://lab/oauth/access_token")),
        ("threads", {"api_base": "http://lab", "token_url": "http://t"}, ("http://lab/oauth/authorize", "http://t")),
        ("instagram", {"api_base": "http://lab"}, ("http://lab/oauth/authorize", "http://lab/oauth/access_token")),
        (
            "facebook",
            {"api_base": "http://lab"},
            ("http://lab/v26.0/dialog/oauth", "http://lab/v26.0/oauth/access_token"),
        ),
    ],
)
def test_a_lab_stands_in_for_the_hosts_that_are_not_set(
    name: str, settings: dict[str, str], expected: tuple[str, str]
) -> None:
    found = site(name, settings)
    assert (found.authorize_url, found.token_url) == expected


@pytest.mark.parametrize(
    ("reply", "names"),
    [
        (graph_refusal(4, 2207051), ("4/2207051", "2207051", "4")),
        (graph_refusal(1609005), ("1609005",)),
        (make_response(400, {"error": {"error_subcode": 1609005}}), ("1609005",)),
        (graph_refusal(200, 1609008), ("200/1609008", "1609008", "200", "permission")),
        (graph_refusal(10), ("10", "permission")),
        (graph_refusal(200, 1609010), ("200/1609010", "1609010")),
        (make_response(400, {"error": {"code": "190"}}), ()),
        (make_response(400, {"error": {"code": True}}), ()),
        (make_response(400, {"error": "text"}), ()),
        (make_response(400, "<html>"), ()),
        (make_response(400, []), ()),
    ],
)
def test_an_error_is_known_by_its_numbers(reply: Any, names: tuple[str, ...]) -> None:
    assert parse_fault(reply).names == names


def test_the_words_for_people_are_shown_where_there_are_any() -> None:
    assert parse_fault(graph_refusal(1, message="dev", error_user_msg="people")).message == "people"
    assert (
        parse_fault(make_response(400, {"error_type": "OAuthException", "error_message": "bad code"})).message
        == "bad code"
    )


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ('{"1": [{"estimated_time_to_regain_access": 19}]}', 1140),
        ('{"1": [{"estimated_time_to_regain_access": 2}], "2": [{"estimated_time_to_regain_access": 5}]}', 300),
        ('{"1": [{"estimated_time_to_regain_access": 0}]}', None),
        ('{"1": [{"estimated_time_to_regain_access": "soon"}]}', None),
        ('{"1": [{}]}', None),
        ('{"1": 7}', None),
        ("[]", None),
        ("{", None),
        ("", None),
        ("7", None),
    ],
)
def test_the_usage_header_says_when_calls_are_taken_again(header: str, seconds: int | None) -> None:
    assert get_wait_seconds(make_response(400, {}, x_business_use_case_usage=header)) == seconds


@pytest.mark.parametrize(
    ("app", "seconds"),
    [
        ('{"call_count": 100, "total_time": 25, "total_cputime": 25}', 3600),
        ('{"call_count": 28, "total_time": 130, "total_cputime": 25}', 3600),
        ('{"call_count": 99, "total_time": 25, "total_cputime": 25}', None),
        ('{"call_count": 100, "estimated_time_to_regain_access": 7}', 420),
        ('{"call_count": "100"}', None),
        ("[100]", None),
    ],
)
def test_an_app_whose_calls_of_the_hour_are_used_up_waits_for_the_next(app: str, seconds: int | None) -> None:
    assert get_wait_seconds(make_response(400, {}, x_app_usage=app)) == seconds


@pytest.mark.parametrize("name", MODULES)
def test_only_a_call_that_may_be_made_again_says_when(name: str) -> None:
    headers = {"x-app-usage": '{"call_count": 100}'}
    module: Any = MODULES[name]
    up = make_upstream(module.PLATFORM)
    assert module.GRAPH.refused(up, "settle", graph_refusal(4, headers=headers)).retry_after == 3600
    assert module.GRAPH.refused(up, "settle", graph_refusal(190, headers=headers)).retry_after is None


@pytest.mark.parametrize("name", MODULES)
def test_a_number_means_the_same_as_code_and_as_subcode(name: str) -> None:
    """Every row of the table that names a number, at both places."""
    graph_api: Any = MODULES[name].GRAPH
    for step, status, number in graph_api.replies:
        if status != 400 or not str(number).isdecimal():
            continue
        at = step if step != "*" else "make" if name != "facebook" else "send"
        as_code = graph_api.verdict(at, graph_refusal(int(number)), mutating=True)
        as_subcode = graph_api.verdict(at, graph_refusal(99_999, int(number)), mutating=True)
        assert as_code == as_subcode == graph_api.replies[step, 400, number]


TOKENS_REFUSED = [
    graph_refusal(190),
    graph_refusal(190, 459),
    graph_refusal(190, 464),
    graph_refusal(190, 492),
    graph_refusal(190, 460),
    graph_refusal(102),
]
PERMISSIONS_REFUSED = [
    graph_refusal(3),
    graph_refusal(10, status=403),
    graph_refusal(200, status=403),
    graph_refusal(283),
    graph_refusal(299),
]


@pytest.mark.parametrize("name", MODULES)
def test_a_refused_token_is_told_from_a_refused_permission(name: str) -> None:
    module: Any = MODULES[name]
    up = make_upstream(module.PLATFORM)
    for replies, token in (([*TOKENS_REFUSED, make_response(401, b"")], True), (PERMISSIONS_REFUSED, False)):
        for reply in replies:
            error = module.GRAPH.refused(up, "settle", reply)
            assert (error.code, error.token_refused) == ("platform_auth_failed", token), reply


def test_facebooks_own_refusals_of_permission_keep_the_account() -> None:
    up = make_upstream(facebook.PLATFORM)
    words = graph_refusal(100, message="(#100) No permission to publish the video")
    for reply in (words, graph_refusal(1705), graph_refusal(1, 1404078), graph_refusal(4854002)):
        error = facebook.GRAPH.refused(up, "send", reply)  # type: ignore[attr-defined]
        assert (error.code, error.token_refused) == ("platform_auth_failed", False)


@pytest.mark.parametrize("name", MODULES)
def test_no_row_names_the_place_of_a_number(name: str) -> None:
    places = [number for _, _, number in MODULES[name].REPLIES if str(number).startswith("/")]
    assert places == []


PROOF = hmac.new(b"app-secret-1", b"access-token-1", "sha256").hexdigest()


@pytest.mark.parametrize(
    ("name", "settings", "params"),
    [
        ("facebook", {}, {"appsecret_proof": PROOF, "fields": "id"}),
        ("facebook", {"appsecret_proof": False}, {"fields": "id"}),
        ("facebook", {"client_secret": ""}, {"fields": "id"}),
        ("instagram", {}, {"fields": "id"}),
        ("instagram", {"appsecret_proof": True}, {"appsecret_proof": PROOF, "fields": "id"}),
        ("threads", {}, {"fields": "id"}),
        ("threads", {"appsecret_proof": True}, {"appsecret_proof": PROOF, "fields": "id"}),
    ],
)
def test_a_call_proves_that_it_comes_from_the_app(name: str, settings: dict[str, Any], params: dict[str, str]) -> None:
    module: Any = MODULES[name]
    call = ExpectedCall(
        "GET", module.GRAPH.address(module.PLATFORM.site(), "me"), make_response(200, {}), params=params
    )
    line = replace(
        make_upstream(module.PLATFORM), http=ScriptedTransport([call]), site=module.PLATFORM.site(**(SITE | settings))
    )
    assert module.GRAPH.ask(line, "GET", "me", params={"fields": "id"}).is_success
    check_finished(line)


@pytest.mark.parametrize("name", MODULES)
def test_an_app_that_wants_a_proof_is_the_operators_business(name: str) -> None:
    graph_api: Any = MODULES[name].GRAPH
    said = graph_refusal(100, message="API calls from the server require an appsecret_proof argument")
    error = graph_api.refused(make_upstream(MODULES[name].PLATFORM), "settle", said)  # type: ignore[attr-defined]
    assert (error.code, "appsecret_proof" in error.message) == ("platform_not_enabled", True)


@pytest.mark.parametrize("name", MODULES)
def test_the_operator_chooses_the_scopes(name: str) -> None:
    module: Any = MODULES[name]
    required = module.PLATFORM.oauth.required
    chosen = module.PLATFORM.site(**SITE, scopes=f"{required[0]} other_scope")
    asked = parse_qs(
        urlsplit(oauth.build_authorize_url(module.PLATFORM, chosen, "https://a.example/cb", "s", "")).query
    )
    assert asked["scope"] == [f"{required[0]},other_scope"]
    oauth.require_scopes(module.PLATFORM, [required[0]], chosen)
    with pytest.raises(ApiError, match=required[0]):
        oauth.require_scopes(module.PLATFORM, ["other_scope"], chosen)


def test_a_configuration_of_login_for_business_stands_in_place_of_scopes() -> None:
    chosen = facebook.PLATFORM.site(**SITE, config_id="12345")
    asked = parse_qs(
        urlsplit(oauth.build_authorize_url(facebook.PLATFORM, chosen, "https://a.example/cb", "s", "")).query
    )
    assert (asked["config_id"], "scope" in asked) == (["12345"], False)
    with pytest.raises(ApiError, match="pages_manage_posts"):
        oauth.require_scopes(facebook.PLATFORM, ["pages_show_list", "pages_read_engagement"], chosen)


def test_videos_go_to_the_api_itself_unless_another_host_is_set() -> None:
    assert site("facebook", {}).upload_base == "https://graph.facebook.com"
    assert site("facebook", {"upload_base": "http://up"}).upload_base == "http://up"


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-20T09:10:12+0000", 1_795_165_812_000),
        ("2026-11-20T10:10:12+0100", 1_795_165_812_000),
        ("2026-11-20T09:10:12", None),
        ("soon", None),
        (None, None),
        (7, None),
    ],
)
def test_instants_are_read_as_graph_writes_them(text: object, ms: int | None) -> None:
    assert parse_time_ms(text) == ms


@settings(max_examples=60)
@given(alt=st.text(st.characters(exclude_categories=["Cs"]), max_size=60), content=st.binary(max_size=3000))
def test_whatever_is_in_a_form_arrives_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, alt: str, content: bytes
) -> None:
    path: Path = tmp_path_factory.mktemp("form") / "a"
    path.write_bytes(content)
    kept: list[Received] = []

    class Catch:
        def request(self, method: str, url: str, **sent: Any) -> Any:
            body = b"".join(sent["content"])
            headers = {name.lower(): value for name, value in sent["headers"].items()}
            assert headers["content-length"] == str(len(body))
            kept.append(Received(method, url, "", headers=headers, body=body))
            return make_response(200, {"id": "1"})

    up = make_upstream(facebook.PLATFORM)
    object.__setattr__(up, "http", Catch())
    item = DraftMedia("image", alt or None, facts=MediaFacts("image/png", 1), path=path)
    media_upload.upload_photos(up, Draft("", items=(item,), nonce=NONCE), None)
    found = form_of(kept[0])
    assert found.files == {"source": ("image/png", content)}
    assert found.texts == {"published": "false"} | ({"alt_text_custom": alt} if alt else {})
