"""Fake Bluesky answers against recorded cases of @atproto/pds 0.5.35, in order."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from socialpub.simulator.bluesky import Bluesky, tokens
from socialpub.simulator.bluesky.accounts import ADMIN_PASSWORD
from socialpub.simulator.bluesky.tokens import Claims
from socialpub.simulator.server import SimulatorThread

pytestmark = pytest.mark.upstream

RECORDED = Path(__file__).parents[4] / "shared/upstream-specs/bluesky/pds-0.5.35-responses.json"
CASES: list[dict[str, Any]] = json.loads(RECORDED.read_text()) if RECORDED.exists() else []
CALLS = [number for number, case in enumerate(CASES) if "request" in case]

EXCEPTIONS: Mapping[str, tuple[str, str]] = {
    "createSession not JSON": ("message", "the words are those of the JSON parser"),
    "uploadBlob 6 MB (limit 5 MiB here)": ("headers", "recorded from a raw socket: no headers, the body as text"),
    "getProfile (needs AppView, none here)": ("all", "the fake has an app view, as Bluesky's own servers have"),
}

FIRST_BYTES = {"image/png": b"\x89PNG\r\n\x1a\n", "video/mp4": b"\x00\x00\x00\x18ftypisom"}
TOKENS_OF_CASE = {  # case: (the case whose session is used, or a made token; which of its tokens)
    "createRecord garbage token": ("made", "garbage"),
    "createRecord bad signature": ("made", "forged"),
    "createRecord refresh token as access": ("createSession app password (handle)", "refreshJwt"),
    "createRecord EXPIRED access token": ("made", "expired access"),
    "refreshSession with access token": ("createSession app password (handle)", "accessJwt"),
    "refreshSession EXPIRED refresh token": ("made", "expired refresh"),
    "createAppPassword second": ("createSession main password", "accessJwt"),
    "revokeAppPassword": ("createSession main password", "accessJwt"),
    "refreshSession of revoked app password": ("createSession second app password", "refreshJwt"),
    "access token of revoked app password still valid": ("createSession second app password", "accessJwt"),
    "deactivateAccount": ("createAccount bob", "accessJwt"),
    "createRecord on deactivated account": ("createAccount bob", "accessJwt"),
    "activateAccount": ("createAccount bob", "accessJwt"),
    "createRecord on taken-down account": ("createAccount bob", "accessJwt"),
    "refreshSession on taken-down account": ("createAccount bob", "refreshJwt"),
}


class RecordingTime:
    """The time of the recording, so that keys made by the server sort among the recorded ones as they did."""

    def now_ms(self) -> int:
        return 1_795_165_808_000

    def monotonic(self) -> float:
        return 0.0


@dataclass
class Replay:
    """Sends the recorded requests, with the fake's own DIDs, passwords and cids in the place of the recorded ones."""

    simulator: SimulatorThread
    client: httpx.Client
    ours: dict[str, str] = field(default_factory=dict)  # recorded string: the fake's own
    answers: dict[int, httpx.Response] = field(default_factory=dict)
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)

    def run(self) -> None:
        recorded = CASES[5]["body"]
        made = self.simulator.lab.add_account(
            "bluesky",
            handle=recorded["handle"],
            email=recorded["email"],
            password=CASES[7]["request"]["body"]["password"],
        )
        self.ours[recorded["did"]] = made["did"]
        self.ours[CASES[5]["request"]["body"]["password"]] = made["appPassword"]
        for number in CALLS:
            self.answers[number] = answer = self._send(CASES[number])
            self._learn(CASES[number], answer)

    def _send(self, case: dict[str, Any]) -> httpx.Response:
        asked = case["request"]
        content, kind = self._body(asked["body"])
        headers = {**kind, **self._authorization(case)}
        return self.client.request(asked["method"], self.translated(asked["path"]), headers=headers, content=content)

    def _body(self, body: Any) -> tuple[bytes | None, dict[str, str]]:
        described = re.fullmatch(r"<(\d+) bytes ?(.*)>", body) if isinstance(body, str) else None
        if described is None:
            return (
                (None, {}) if body is None else (self.translated(json.dumps(body)).encode(), _type("application/json"))
            )
        size, kind = int(described[1]), described[2]
        first = FIRST_BYTES["video/mp4" if kind == "video/mp4" else "image/png"] if size > 100 else b""
        # The recording's client was urllib, which never leaves the header out.
        return first.ljust(size, b"{"), _type("application/x-www-form-urlencoded" if kind in ("", "None") else kind)

    def _authorization(self, case: dict[str, Any]) -> dict[str, str]:
        if case["case"] == "admin takedown":
            return {"authorization": "Basic " + base64.b64encode(f"admin:{ADMIN_PASSWORD}".encode()).decode()}
        if not case["request"].get("auth", True):
            return {}
        refreshes = case["request"]["path"].endswith(("refreshSession", "deleteSession"))
        usual = ("createSession app password (handle)", "refreshJwt" if refreshes else "accessJwt")
        source, name = TOKENS_OF_CASE.get(case["case"], usual)
        return {
            "authorization": f"Bearer {self._made_token(name) if source == 'made' else self.sessions[source][name]}"
        }

    def _made_token(self, name: str) -> str:
        fake = self.simulator.lab.fakes["bluesky"]
        assert isinstance(fake, Bluesky)
        account = next(iter(fake.accounts))
        old = Claims(account.did, tokens.FULL, 1_000_000_000, "id")
        return {
            "garbage": "garbage",
            "forged": self.sessions["createSession app password (handle)"]["accessJwt"][:-4] + "AAAA",
            "expired access": tokens.make(account.key(0), "at+jwt", "did:web:x", old, 999_999_999),
            "expired refresh": tokens.make(account.key(0), "refresh+jwt", "did:web:x", old, 999_999_999),
        }[name]

    def _learn(self, case: dict[str, Any], answer: httpx.Response) -> None:
        if answer.status_code != 200 or not answer.content:
            return
        body, recorded = answer.json(), case["body"]
        if "accessJwt" in body:
            self.sessions.setdefault(case["case"], body)
        for key in ("did", "cid", "password"):
            if key in body and isinstance(recorded.get(key), str):
                self.ours[recorded[key]] = body[key]
        if "blob" in body:
            self.ours[recorded["blob"]["ref"]["$link"]] = body["blob"]["ref"]["$link"]

    def translated(self, text: str) -> str:
        for recorded, own in self.ours.items():
            text = text.replace(recorded, own)
        return text


def _type(kind: str) -> dict[str, str]:
    return {"content-type": kind}


@pytest.fixture(scope="module")
def replay() -> Replay:
    if not RECORDED.exists():
        pytest.skip(f"no recorded answers at {RECORDED}")
    with SimulatorThread(RecordingTime()) as simulator, httpx.Client(base_url=simulator.origin("bluesky")) as client:
        replay = Replay(simulator, client)
        replay.run()
    return replay


VOLATILE = {
    r"\bey[\w-]+\.[\w-]+\.[\w-]+": "JWT",
    r"\bbaf[a-z2-7]{56}\b": "CID",
    r"\b[2-7a-j][2-7a-z]{12}\b": "TID",
    r"https?://(localhost|127\.0\.0\.1):\d+": "ORIGIN",
    r"did:web:(localhost|127\.0\.0\.1)%3A\d+": "SERVICE",
    r'"publicKeyMultibase": "z\w+"': '"publicKeyMultibase": "KEY"',
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z": "TIME",
}


def normal(replay: Replay, body: Any) -> Any:
    """A body without what differs from run to run."""
    text = replay.translated(json.dumps(body))
    for pattern, name in VOLATILE.items():
        text = re.sub(pattern, name, text)
    return json.loads(text)


@pytest.mark.parametrize("number", CALLS, ids=[CASES[number]["case"] for number in CALLS])
def test_the_fake_answers_as_the_real_server_did(replay: Replay, number: int) -> None:
    case, answer = CASES[number], replay.answers[number]
    differs, _ = EXCEPTIONS.get(case["case"], ("", ""))
    if differs == "all":
        assert answer.status_code == 200
        return
    assert answer.status_code == case["status"], answer.text
    if differs == "message":
        assert answer.json()["error"] == case["body"]["error"]
        return
    recorded = json.loads(case["body"]) if differs == "headers" else case["body"]
    assert normal(replay, answer.json() if answer.content else "") == normal(replay, recorded)


@pytest.mark.parametrize("number", CALLS, ids=[CASES[number]["case"] for number in CALLS])
def test_the_fake_sends_the_headers_that_the_real_server_sent(replay: Replay, number: int) -> None:
    answer, recorded = replay.answers[number], CASES[number].get("headers", {})
    if CASES[number]["case"] in EXCEPTIONS:
        recorded = {}
    assert {name: answer.headers.get(name) for name in recorded} == recorded


def test_a_record_gets_the_cid_that_the_real_server_gave_it(replay: Replay) -> None:
    compared = [
        number
        for number in CALLS
        if "cid" in (CASES[number]["body"] or {}) and not re.search("did:|blob", json.dumps(_record(CASES[number])))
    ]
    assert len(compared) > 15
    for number in compared:
        assert replay.answers[number].json()["cid"] == CASES[number]["body"]["cid"], CASES[number]["case"]


def _record(case: dict[str, Any]) -> Any:
    return (case["request"]["body"] or {}).get("record") or case["body"].get("value")


def test_tokens_say_what_the_real_ones_say(replay: Replay) -> None:
    session = replay.sessions["createSession app password (handle)"]
    header, claims = (_part(session["accessJwt"], place) for place in (0, 1))
    (recorded_header, recorded), recorded_refresh = CASES[13]["body"], CASES[14]["body"]
    refresh = _part(session["refreshJwt"], 1)
    assert header == recorded_header
    assert (claims.keys(), claims["scope"]) == (recorded.keys(), recorded["scope"])
    assert claims["exp"] - claims["iat"] == recorded["exp"] - recorded["iat"]
    assert (refresh.keys(), refresh["scope"]) == (recorded_refresh.keys(), recorded_refresh["scope"])
    assert refresh["exp"] - refresh["iat"] == recorded_refresh["exp"] - recorded_refresh["iat"]


def test_a_used_refresh_token_gets_the_same_successor(replay: Replay) -> None:
    first, again = (
        _part(replay.sessions[case]["refreshJwt"], 1)["jti"]
        for case in ("refreshSession", "refreshSession with OLD refresh token")
    )
    assert first == again


def _part(token: str, place: int) -> Any:
    part = token.split(".")[place]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
