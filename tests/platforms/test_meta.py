from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from socialpub.platforms import facebook, facebook_upload, instagram, site, threads
from socialpub.platforms.base import Draft, Facts, Item
from socialpub.platforms.meta import fault_of, moment_ms, normal, regain_seconds
from socialpub.simulator.meta.multipart import form_of
from socialpub.simulator.wire import Call as Received

from .meta_kit import graph, upstream
from .upstream_kit import NONCE, answer

MODULES = {"facebook": facebook, "instagram": instagram, "threads": threads}
# Rows that no error answer carries: decided while connecting, or by a container's own state.
ELSEWHERE = {
    "facebook.pages.none",
    "instagram.container.expired",
    "threads.container.expired",
}


@pytest.mark.parametrize("name", MODULES)
def test_every_row_that_answers_carry_exists_and_every_upstream_row_is_carried(name: str) -> None:
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
        ("threads", {}, ("https://threads.net/oauth/authorize", "https://graph.threads.net/oauth/access_token")),
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
        (graph(4, 2207051), ("4/2207051", "/2207051", "4")),
        (graph(200, 1609008), ("200/1609008", "/1609008", "200", "permission")),
        (graph(10), ("10", "permission")),
        (answer(400, {"error": {"code": "190"}}), ()),
        (answer(400, {"error": {"code": True}}), ()),
        (answer(400, {"error": "text"}), ()),
        (answer(400, "<html>"), ()),
        (answer(400, []), ()),
    ],
)
def test_an_error_is_known_by_its_numbers(reply: Any, names: tuple[str, ...]) -> None:
    assert fault_of(reply).names == names


def test_the_words_for_people_are_shown_where_there_are_any() -> None:
    assert fault_of(graph(1, message="dev", error_user_msg="people")).message == "people"
    assert fault_of(answer(400, {"error_type": "OAuthException", "error_message": "bad code"})).message == "bad code"


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
    ],
)
def test_the_usage_header_says_when_calls_are_taken_again(header: str, seconds: int | None) -> None:
    assert regain_seconds(answer(400, {}, x_business_use_case_usage=header)) == seconds


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
    assert moment_ms(text) == ms


@given(st.text())
def test_a_text_is_the_same_after_what_platforms_do_to_it(text: str) -> None:
    assert normal(normal(text)) == normal(text)
    assert normal(f"\n{text}\r\n ") == normal(text)
    assert normal(text.replace("\n", "\r\n")) == normal(text)


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
            return answer(200, {"id": "1"})

    up = upstream(facebook.PLATFORM)
    object.__setattr__(up, "http", Catch())
    item = Item("image", alt or None, facts=Facts("image/png", 1), path=path)
    facebook_upload.photo(up, item, Draft("", nonce=NONCE))
    found = form_of(kept[0])
    assert found.files == {"source": ("image/png", content)}
    assert found.texts == {"published": "false"} | ({"alt_text_custom": alt} if alt else {})
