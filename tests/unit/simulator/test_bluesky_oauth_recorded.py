"""OAuth flow of the fake Bluesky against recorded answers of a real server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from socialpub.simulator.server import SimulatorThread
from tests.support.bluesky_oauth_client import OAuthClient
from tests.support.fixed_clock import FixedClock

pytestmark = pytest.mark.upstream

RECORDED = Path(__file__).parents[4] / "shared/upstream-specs/bluesky/pds-0.5.35-oauth-responses.json"
CASES: dict[str, Any] = (
    {case["case"]: case for case in reversed(json.loads(RECORDED.read_text()))} if RECORDED.exists() else {}
)
STEPS = [
    "protected resource metadata",
    "authorization server metadata",
    "PAR without DPoP",
    "PAR without nonce -> use_dpop_nonce",
    "PAR without PKCE",
    "PAR bad redirect_uri",
    "PAR scope without atproto",
    "PAR ok",
    "token without DPoP",
    "token ok",
    "createRecord, DPoP without nonce",
    "createRecord with DPoP nonce",
    "createRecord DPoP-bound token as Bearer",
    "createRecord without proof",
    "refresh ok",
    "old access token after refresh",
    "new access token",
    "refresh token REPLAY",
    "new access token after replay",
    "refresh with the newer token after replay",
    "code REPLAY",
    "token wrong verifier",
    "revoke",
    "refresh after revoke",
    "access token after revoke",
]
VOLATILE = {
    r"https?://(localhost|127\.0\.0\.1):\d+": "ORIGIN",
    r'"(access_token|refresh_token|uri|cid|rev|sub)": "[^"]+"': r'"\1": "…"',
    r"request_uri:req-\w+": "request_uri:req",
    r'"expires_in": (299|300)\b': '"expires_in": 299',
}


def danced(simulator: SimulatorThread, http: httpx.Client) -> dict[str, httpx.Response]:
    """The recorded dance at the fake: the answer to each step."""
    did = simulator.lab.add_account("bluesky", handle="alice.test")["did"]
    client = OAuthClient(http, simulator.lab.clock.now_ms)
    found = {
        "protected resource metadata": http.get("/.well-known/oauth-protected-resource"),
        "authorization server metadata": http.get("/.well-known/oauth-authorization-server"),
        "PAR without DPoP": client.push(""),
    }
    client.nonce = ""
    found |= {
        "PAR without nonce -> use_dpop_nonce": client.push(),
        "PAR without PKCE": client.push(code_challenge=None, code_challenge_method=None),
        "PAR bad redirect_uri": client.push(redirect_uri="https://evil.example/cb"),
        "PAR scope without atproto": client.push(scope="transition:generic"),
        "PAR ok": client.push(),
    }
    code = client.consent(found["PAR ok"].json()["request_uri"])["code"]
    found |= {"token without DPoP": client.by_code(code, ""), "token ok": client.by_code(code)}
    first = found["token ok"].json()
    client.nonce = ""
    found |= {
        "createRecord, DPoP without nonce": client.write(first["access_token"], did),
        "createRecord with DPoP nonce": client.write(first["access_token"], did),
        "createRecord DPoP-bound token as Bearer": client.write(first["access_token"], did, "", "Bearer"),
        "createRecord without proof": client.write(first["access_token"], did, ""),
        "refresh ok": client.refresh(first["refresh_token"]),
    }
    second = found["refresh ok"].json()
    found |= {
        "old access token after refresh": client.write(first["access_token"], did),
        "new access token": client.write(second["access_token"], did),
        "refresh token REPLAY": client.refresh(first["refresh_token"]),
        "new access token after replay": client.write(second["access_token"], did),
        "refresh with the newer token after replay": client.refresh(second["refresh_token"]),
        "code REPLAY": client.by_code(code),
        "token wrong verifier": client.by_code(client.code(), code_verifier="w" * 43),
    }
    last = client.session()
    return found | {
        "revoke": client.post("/oauth/revoke", {"token": last["refresh_token"]}),
        "refresh after revoke": client.refresh(last["refresh_token"]),
        "access token after revoke": client.write(last["access_token"], did),
    }


@pytest.fixture(scope="module")
def answers() -> dict[str, httpx.Response]:
    if not RECORDED.exists():
        pytest.skip(f"no recorded answers at {RECORDED}")
    with SimulatorThread(FixedClock()) as simulator, httpx.Client(base_url=simulator.origin("bluesky")) as http:
        return danced(simulator, http)


def normal(body: Any) -> Any:
    """A body without what differs from run to run."""
    text = json.dumps(body)
    for pattern, name in VOLATILE.items():
        text = re.sub(pattern, name, text)
    return json.loads(text)


@pytest.mark.parametrize("step", STEPS)
def test_a_step_is_answered_as_the_real_server_did(answers: dict[str, httpx.Response], step: str) -> None:
    answer, recorded = answers[step], CASES[step]
    assert answer.status_code == recorded["status"], answer.text
    assert normal(answer.json()) == normal(recorded["body"])


@pytest.mark.parametrize("step", STEPS)
def test_a_step_has_the_headers_of_the_real_servers(answers: dict[str, httpx.Response], step: str) -> None:
    recorded = dict(CASES[step]["headers"])
    had_nonce = recorded.pop("dpop-nonce", None)
    sent = answers[step].headers
    expected = {name: value for name, value in recorded.items() if name != "cache-control"}
    assert {name: sent.get(name) for name in expected} == expected
    assert (sent.get("dpop-nonce") is not None) == (had_nonce is not None)
    assert recorded.get("cache-control", "") in (sent.get("cache-control") or "")


def test_every_recorded_answer_is_compared_or_a_step_in_the_browser(answers: dict[str, httpx.Response]) -> None:
    in_the_browser = {"authorize page", "sign-in wrong password", "sign-in", "consent", "redirect", "reject"}
    again = {"callback params", "rejected callback params", "PAR 2", "PAR 3", "PAR 4", "token 4"}
    assert set(CASES) == set(STEPS) | in_the_browser | again
    assert set(answers) == set(STEPS)
