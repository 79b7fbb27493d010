"""What a person is told when a platform refuses an account."""

from __future__ import annotations

import httpx
import pytest

from tests.kit import Person, Server


@pytest.mark.parametrize(
    ("name", "remediation"),
    [
        # The platform's own advice stays: reconnecting does not bring a taken-down account back.
        ("AccountTakedown", "restore"),
        ("AuthMissing", "Reconnect the account"),
    ],
)
def test_the_platforms_own_advice_is_kept(server: Server, alice: Person, name: str, remediation: str) -> None:
    body = {"error": name, "message": "no"}
    fault = {"fault": "status:401", "operation": "com.atproto.repo.putRecord", "body": body}
    httpx.post(f"{server.lab.url}/lab/faults", json=[fault], trust_env=False).raise_for_status()
    answer = alice.api.publish({"targets": [{"accountId": alice.bluesky}], "text": "hello"})
    error = answer.json()["results"][0]["error"]
    assert (error["code"], error["rule"]) == ("platform_auth_failed", "account.reconnect_required")
    assert remediation.lower() in error["remediation"].lower()
