"""Texts of users and platforms appear as text in a browser, and no script runs."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from socialpub.domain.access.actor import build_operator
from socialpub.domain.identity import api_keys
from socialpub.domain.schemas.api_keys import KeyRequest
from socialpub.platforms.contract import AccountIdentity, Tokens
from socialpub.simulator.server import SimulatorThread
from socialpub.store.database import Tx
from socialpub.store.schema.models import Account
from tests.support.app_server import AppServer
from tests.support.browser.chromium import BrowserTab
from tests.support.connect_flow import ConnectSession, open_connect_session

pytestmark = pytest.mark.browser

RUN = "window.ran=1"
HOSTILE = [
    f"<script>{RUN}</script>",
    f"</th><script>{RUN}</script>",
    f"</title><script>{RUN}</script>",
    f"</textarea><script>{RUN}</script>",
    f"--><script>{RUN}</script>",
    f"]]><script>{RUN}</script>",
    f"<SCRIPT>{RUN}</SCRIPT>",
    f"<scr<script>ipt>{RUN}</scr</script>ipt>",
    f"<script\t>{RUN}</script >",
    f"<script/x>{RUN}</script>",
    f"<script src=data:text/javascript,{RUN}></script>",
    "<script src=//evil.example/x.js></script>",
    f"<img src=x onerror={RUN}>",
    f'"><img src=x onerror={RUN}>',
    f"'><img src=x onerror='{RUN}'>",
    f"`><img src=x onerror=`{RUN}`>",
    f"<img src=x:x onerror\t=\t{RUN}>",
    f"<img/src=x/onerror={RUN}>",
    f"<image src=x onerror={RUN}>",
    f"<svg onload={RUN}>",
    f"<svg/onload={RUN}>",
    f"<svg><script>{RUN}</script></svg>",
    f"<svg><animate onbegin={RUN} attributeName=x dur=1s>",
    f"<math><mtext><img src=x onerror={RUN}></mtext></math>",
    f"<body onload={RUN}>",
    f"<iframe srcdoc='<script>parent.{RUN}</script>'>",
    f"<iframe src=javascript:parent.{RUN}>",
    f"<object data=javascript:{RUN}>",
    f"<embed src=javascript:{RUN}>",
    f"<a href=javascript:{RUN} autofocus onfocus={RUN}>x</a>",
    f'" autofocus onfocus={RUN} x="',
    f"' autofocus onfocus={RUN} x='",
    f"<input autofocus onfocus={RUN}>",
    f"<details open ontoggle={RUN}>",
    f"<video><source onerror={RUN}></video>",
    f"<form><button formaction=javascript:{RUN}>x</button></form>",
    f"<meta http-equiv=refresh content='0;url=javascript:{RUN}'>",
    "<base href=//evil.example/>",
    f"<style>@import'//evil.example/x';</style><style onload={RUN}></style>",
    f"<template><script>{RUN}</script></template>",
    f"&lt;script&gt;{RUN}&lt;/script&gt;",
    f"&#60;script&#62;{RUN}&#60;/script&#62;",
    f"\\u003cscript\\u003e{RUN}\\u003c/script\\u003e",
    f"{{{{ ''.__class__ }}}}{{% raw %}}${{{RUN}}}",
    f"+ADw-script+AD4-{RUN}+ADw-/script+AD4-",
    f"\u202e<script>{RUN}</script>",
    f"＜script＞{RUN}＜/script＞",
]
MADE = (
    'script:not([src^="/static/"]), img, image, iframe, object, embed, math, video, '
    'details:not(.menu, form > details), svg:not(:has(> use[href^="/static/icons.svg#"])), '
    "base, template, main style, main meta"
)


@pytest.fixture
def office(
    make_server: Callable[..., AppServer], lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch, tab: BrowserTab
) -> ConnectSession:
    opened = open_connect_session(make_server, lab, monkeypatch, "threads")
    tab.send("Network.setCookie", name="socialpub_session", value="alice", url=opened.server.url)
    return opened


def test_the_strings_are_enough_and_would_run(tab: BrowserTab) -> None:
    """Where nothing is escaped, the first of them does: this test sees what it is there to see."""
    assert len(set(HOSTILE)) >= 40
    tab.show(f"data:text/html,<title>t</title><main>{HOSTILE[0]}</main>", width=1000)
    assert tab.ask("window.ran") == 1


def test_names_and_words_of_platforms_stand_on_the_pages_as_they_are(tab: BrowserTab, office: ConnectSession) -> None:
    server, alice = office.server, office.alice
    accounts = [
        server._keep(alice, str(number), "threads", AccountIdentity(f"t{number}", text), Tokens("made-up"))
        for number, text in enumerate(HOSTILE)
    ]

    def write(tx: Tx) -> None:
        for account, text in zip(accounts, HOSTILE, strict=True):
            said = {"code": "platform_auth_failed", "message": text, "at": server.clock.now_ms()}
            columns = {"attention": json.dumps(said), "display_name": text}  # as before names were bounded
            Account.update(**columns).where(Account.id == account["id"]).execute()
            api_keys.create(
                tx, build_operator(server.service, "test").within(alice.organization), KeyRequest(name=text)
            )

    server.service.write(write).result()
    for path, places in (("/accounts", ("tbody .name", "tbody .said")), ("/settings/keys", ("tbody th",)), ("/", ())):
        tab.show(f"{server.url}{path}", width=1000)
        for where in places:
            shown = tab.ask(f"[...document.querySelectorAll({where!r})].map(cell => cell.textContent)")
            assert set(HOSTILE) <= set(shown)
        looks_harmless(tab, server)


@pytest.mark.parametrize("text", HOSTILE[::6])
def test_a_name_that_a_platform_tells_while_connecting_is_text(
    tab: BrowserTab, office: ConnectSession, text: str
) -> None:
    office.login_exists(displayName=text)
    tab.show(f"{office.server.url}/connect/threads", width=1000)
    tab.click("#go")
    assert tab.ask("document.querySelector('#connected').textContent") in (
        text,
        office.rows()[0]["platform_account_id"],
    )
    assert office.rows()[0]["display_name"] == text
    looks_harmless(tab, office.server)


def looks_harmless(tab: BrowserTab, server: AppServer) -> None:
    """Nothing ran, nothing tried to (the policy would have complained), and nothing was asked of anybody else."""
    assert tab.ask("window.ran") is None
    assert tab.complaints == []
    assert tab.ask(f"[...document.querySelectorAll(`{MADE}`)].map(found => found.outerHTML)") == []
    assert all(url.startswith((server.url, server.lab.origin("threads"))) for url in tab.asked), tab.asked
