"""Error messages for account refusals: platform advice kept, length capped."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.support.app_server import AppServer, Person


@pytest.mark.parametrize(
    ("name", "rule", "remediation"),
    [
        # The platform's own advice stays: reconnecting does not bring a taken-down account back.
        ("AccountTakedown", None, "restore"),
        ("AuthMissing", "account.reconnect_required", "Reconnect the account"),
    ],
)
def test_the_platforms_own_advice_is_kept(
    server: AppServer, alice: Person, name: str, rule: str | None, remediation: str
) -> None:
    body = {"error": name, "message": "no"}
    fault = {"fault": "status:401", "operation": "com.atproto.repo.putRecord", "body": body}
    httpx.post(f"{server.lab.url}/lab/faults", json=[fault], trust_env=False).raise_for_status()
    answer = alice.api.publish({"targets": [{"accountId": alice.bluesky}], "text": "hello"})
    error = answer.json()["results"][0]["error"]
    assert (error["code"], error.get("rule")) == ("platform_auth_failed", rule)
    assert remediation.lower() in error["remediation"].lower()


@pytest.mark.parametrize("said", ["Rate Limit Exceeded", "Rate limit exceeded."])
def test_a_platforms_words_end_before_the_next_sentence(server: AppServer, alice: Person, said: str) -> None:
    body = {"error": "RateLimitExceeded", "message": said}
    fault = {"fault": "status:429", "operation": "com.atproto.repo.putRecord", "body": body, "retryAfter": 77}
    httpx.post(f"{server.lab.url}/lab/faults", json=[fault], trust_env=False).raise_for_status()
    answer = alice.api.publish({"targets": [{"accountId": alice.bluesky}], "text": "hello"})
    message = answer.json()["results"][0]["error"]["message"]
    assert message == f"Bluesky did not publish the post: {said.rstrip('.')}. It asks to wait 77 seconds."


def test_of_a_long_answer_16_kib_are_passed_on_at_most(server: AppServer, alice: Person) -> None:
    body = {"error": "InvalidRequest", "message": "no", "more": "ü" * 100_000}
    fault = {"fault": "status:400", "operation": "com.atproto.repo.putRecord", "body": body}
    httpx.post(f"{server.lab.url}/lab/faults", json=[fault], trust_env=False).raise_for_status()
    answer = alice.api.publish({"targets": [{"accountId": alice.bluesky}], "text": "hello"})
    shown = answer.json()["results"][0]["error"]["platformResponse"]
    assert len(json.dumps(shown, ensure_ascii=False).encode()) <= 16 * 1024
    assert '"status": 400' in shown["truncated"]
