"""Invalid notification channels are refused, and nothing is written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from socialpub.store.schema.models import NotificationChannel
from tests.support.app_server import error_of
from tests.support.chat_servers import CHANNELS, TOKEN
from tests.support.refused_addresses import PRIVATE4, REFUSED_SPELLINGS
from tests.support.request_cast import RequestCast

SLACK_TO = {"kind": "slack", "url": "https://192.0.32.10/services/T0/B0/x"}
BAD: list[dict[str, Any]] = [
    {},
    {"to": {}},
    {"to": None},
    {"to": "slack"},
    {"to": {"kind": "sms", "url": "https://192.0.32.10/"}},
    {"to": {"kind": "slack"}},
    {"to": {"kind": "slack", "url": ""}},
    {"to": {"kind": "slack", "url": "https://192.0.32.10/" + "x" * 2048}},
    {"to": {**SLACK_TO, "channel": "#general"}},
    {"to": {"kind": "discord", "url": 5}},
    {"to": {"kind": "telegram", "botToken": "nothing", "chatId": "1"}},
    {"to": {"kind": "telegram", "botToken": TOKEN, "chatId": 1}},
    {"to": {"kind": "telegram", "botToken": TOKEN, "chatId": "@a b"}},
    {"to": {"kind": "telegram", "botToken": f"{TOKEN}/../x", "chatId": "1"}},
    {"to": {"kind": "telegram", "botToken": f"{TOKEN}\n", "chatId": "1"}},
    {"to": {"kind": "ntfy"}},
    {"to": {"kind": "ntfy", "topic": "a/b"}},
    {"to": {"kind": "ntfy", "topic": "x" * 65}},
    {"to": {"kind": "ntfy", "topic": "a", "url": "https://192.0.32.10/path"}},
    {"to": {"kind": "ntfy", "topic": "a", "url": "https://user@192.0.32.10"}},
    {"to": {"kind": "ntfy", "topic": "a", "token": "x\r\nX-Injected: 1"}},
    {"to": {"kind": "email", "address": "nobody"}},
    {"to": {"kind": "email", "address": "a@b.test, c@d.test"}},
    {"to": {"kind": "email", "address": "a@b.test\r\nBcc: c@d.test"}},
    {"to": {"kind": "email", "address": "a@b.test\n"}},
    {"to": {"kind": "email", "address": "Alice <a@b.test>"}},
    {"to": {"kind": "email", "address": '"a b"@b.test'}},
    {"to": {"kind": "email", "address": "ä@b.test"}},
    {"to": {"kind": "email", "address": "a@" + "b." * 130 + "test"}},
    {"to": SLACK_TO, "events": ["post.gone"]},
    {"to": SLACK_TO, "events": "post.failed"},
    {"to": SLACK_TO, "description": "x" * 501},
    {"to": SLACK_TO, "description": "a\0b"},
    {"to": SLACK_TO, "active": True},
    {"to": SLACK_TO, "more": 1},
]


@pytest.mark.parametrize("body", BAD, ids=lambda body: json.dumps(body)[:60])
def test_bad_input_is_refused_and_leaves_nothing(corpus: RequestCast, body: dict[str, Any]) -> None:
    answer = corpus.alice.api.post(CHANNELS, json=body)
    assert (answer.status_code, error_of(answer)["code"]) == (400, "validation_failed")
    assert corpus.server.rows(NotificationChannel) == []


@pytest.mark.parametrize(
    ("to", "rule", "message"),
    [
        ({}, "to.kind", "to.kind: Name the kind of channel: email, ntfy, slack, discord, telegram."),
        (
            {"kind": "sms"},
            "to.kind",
            "to.kind: Input should be one of 'email', 'ntfy', 'slack', 'discord', 'telegram'.",
        ),
        ({"kind": "slack"}, "to.url", "to.url: Field required."),
        (
            {**SLACK_TO, "secret": "x"},
            "to.secret",
            "to.secret: There is no such field; remove it. Known here: kind, url.",
        ),
        (
            {"kind": "email", "address": "nobody"},
            "to.address",
            "to.address: Input should be an e-mail address and nothing else, such as ann@example.com.",
        ),
        (
            {"kind": "telegram", "botToken": TOKEN, "chatId": "@a b"},
            "to.chatId",
            "to.chatId: Input should be a chat's number, or the @name of a public channel.",
        ),
    ],
)
def test_what_is_wrong_is_told_in_words_and_by_the_field_that_was_sent(
    corpus: RequestCast, to: dict[str, Any], rule: str, message: str
) -> None:
    error = error_of(corpus.alice.api.post(CHANNELS, json={"to": to}))
    assert (error["rule"], error["message"]) == (rule, message)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["slack", "discord"])
def test_no_address_or_spelling_of_the_table_is_taken(corpus: RequestCast, kind: str) -> None:
    for url in (*(f"https://{address}/" for address in PRIVATE4), *REFUSED_SPELLINGS):
        error = error_of(corpus.alice.api.post(CHANNELS, json={"to": {"kind": kind, "url": url}}))
        known = error.get("rule") in ("webhook.url.scheme", "webhook.url.address")
        assert known or len(url) > 2000 or not url, url
    inside = {"kind": "ntfy", "topic": "a", "url": "https://10.0.0.8"}
    assert error_of(corpus.alice.api.post(CHANNELS, json={"to": inside}))["rule"] == "webhook.url.address"
    assert corpus.server.rows(NotificationChannel) == []
