"""Pages that need a session: where a browser without one is sent, and that it comes back to what it had asked for."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from tests.kit import Person, Server
from tests.web.test_signin import EMAIL, add_user, sign_in

BACK = "/connect/threads/callback"


@pytest.mark.parametrize(
    "asked",
    [
        BACK,
        f"{BACK}?state=s&code=c%2Bd%26e%3D#_",
        f"{BACK}?code=AQBx-_~.%C3%A9&state=%22%3E%3Cscript%3E",
        "/connect/bluesky?handle=alice.test&profile=p",
        f"{BACK}?next=//evil.example",
    ],
)
def test_signing_in_leads_back_to_the_page_with_its_query(server: Server, alice: Person, asked: str) -> None:
    add_user(server, alice, EMAIL, "owner")
    api = server.api()
    sent = api.get(asked)
    assert sent.status_code == 303
    assert (urlsplit(sent.headers["Location"]).path, urlsplit(sent.headers["Location"]).netloc) == ("/login", "")
    (after,) = parse_qs(urlsplit(sent.headers["Location"]).query)["next"]
    assert after == asked.partition("#")[0]
    form = api.get(sent.headers["Location"])
    assert "<script" not in form.text
    assert (sent.headers["Referrer-Policy"], form.headers["Referrer-Policy"]) == ("no-referrer", "no-referrer")
    assert sign_in(api, next=after).headers["Location"] == after


@pytest.mark.parametrize("path", ["/connect/bluesky", "/keys", "/logout"])
def test_a_form_without_a_session_is_not_sent_again(server: Server, path: str) -> None:
    answer = server.api().post(path, data={"name": "x"})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/login")


def test_a_way_back_outside_ascii_is_no_failure(server: Server, alice: Person) -> None:
    add_user(server, alice, EMAIL, "owner")
    assert sign_in(server.api(), next="/é?ü=😀").status_code == 303
