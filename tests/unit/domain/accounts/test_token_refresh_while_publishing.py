"""Token refresh during publishing and process kills, against the fake Bluesky."""

from __future__ import annotations

import concurrent.futures
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from socialpub.base.errors import rule_error
from socialpub.domain.accounts import tokens
from socialpub.domain.server import instance
from socialpub.store.jobs import job_queue
from socialpub.store.schema.models import Account
from tests.support.app_server import AppServer, Person, format_instant, sleep_briefly

KILL = """
import sys
from pathlib import Path
from socialpub.base.config import Settings
from socialpub.base.runtime import Runtime, load_vault
from socialpub.base.errors import rule_error
from socialpub.domain.accounts import tokens
from socialpub.domain.server import instance
from socialpub.domain.context.app_context import open_context
from socialpub.domain.background import periodic_tasks
from socialpub.store.jobs import job_queue
from socialpub.store.schema.models import Account

path, origin, account = sys.argv[1:]
settings = Settings(
    database={"url": path}, security={"allow_private_networks": True}, platforms={"bluesky": {"api_base": origin}}
)
service = open_context(Runtime(settings, load_vault(settings)))
sealed = service.read(lambda: Account.select(Account.secret).where(Account.id == account).scalar()).result()
tokens.refresh_tokens(service, account, tokens.decrypt(service, account, sealed))
"""


def refreshes(server: AppServer) -> int:
    return len([call for call in server.lab.lab.calls if call.operation.endswith("refreshSession")])


def sends(server: AppServer, text: str) -> int:
    return len([entry for entry in server.lab.lab.ledger.entries("bluesky") if (entry.text or "").startswith(text)])


def publish(person: Person, text: str, targets: int = 1) -> list[dict[str, Any]]:
    body = {"targets": [{"accountId": person.bluesky, "text": f"{text} {n}"} for n in range(targets)]}
    return list(person.api.publish(body).json()["results"])


@pytest.mark.slow
def test_fifty_posts_that_need_a_new_token_at_once_make_one_call(server: AppServer, alice: Person) -> None:
    server.lab.lab.end_tokens("bluesky", access=True)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        done = pool.map(lambda name: publish(alice, name, 25), ("one", "two"))
        statuses = {result["status"] for results in done for result in results}
    assert statuses == {"published"}
    assert refreshes(server) == 1


def test_a_revoked_account_rejects_its_posts_without_another_call(server: AppServer, alice: Person) -> None:
    server.lab.lab.end_tokens("bluesky", access=True, refresh=True)
    (first,) = publish(alice, "first")
    assert (first["status"], first["error"]["rule"]) == ("rejected", "account.reconnect_required")
    assert alice.api.get(f"/v1/accounts/{alice.bluesky}").json()["status"] == "revoked"
    calls = len(server.lab.lab.calls)
    (second,) = publish(alice, "second")
    assert (second["status"], second["error"]["rule"]) == ("rejected", "account.reconnect_required")
    assert len(server.lab.lab.calls) == calls
    assert [type_ for type_, _ in server.events() if type_.startswith("token.")] == ["token.revoked"]


def test_a_platform_in_bad_weather_revokes_nobody(server: AppServer, alice: Person) -> None:
    server.lab.lab.end_tokens("bluesky", access=True)
    server.lab.lab.faults.add([{"fault": "status:503", "operation": "*refreshSession"}])
    (result,) = publish(alice, "stormy")
    assert result["error"]["code"] == "platform_unavailable"
    assert alice.api.get(f"/v1/accounts/{alice.bluesky}").json()["status"] == "active"
    server.lab.lab.faults.clear()
    assert publish(alice, "sunny")[0]["status"] == "published"


def test_a_server_renews_before_a_scheduled_post_is_due(server: AppServer, alice: Person) -> None:
    at = format_instant(server.clock.now_ms() + 7_000_000)
    body = {"targets": [{"accountId": alice.bluesky}], "text": "in two hours", "scheduledAt": at}
    alice.api.publish(body)
    before = server.rows(Account, id=alice.bluesky)[0]["secret"]
    server.skip(6_500)
    server.engine.periodic.token_refresher.run()
    assert eventually(lambda: server.rows(Account, id=alice.bluesky)[0]["secret"] != before)
    assert refreshes(server) == 1


def no_space(*_: Any) -> None:
    raise rule_error("storage.unavailable")


def test_unwritten_tokens_are_written_when_the_server_stops(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.lab.lab.end_tokens("bluesky", access=True)
    with monkeypatch.context() as full:
        full.setattr(tokens, "build_columns", no_space)
        assert publish(alice, "without space")[0]["status"] == "published"
    server.stop()
    server.start()
    alice.api = server.api(alice.key)
    assert publish(alice, "after the start")[0]["status"] == "published"
    assert refreshes(server) == 1


def test_unwritten_tokens_are_written_while_publishing_is_paused(
    make_server: Callable[..., AppServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_queue, "SCHEDULER_SECONDS", 0.02)
    server = make_server()
    alice = server.connected_person("Alice")
    server.lab.lab.end_tokens("bluesky", access=True)
    with monkeypatch.context() as full:
        full.setattr(tokens, "build_columns", no_space)
        assert publish(alice, "without space")[0]["status"] == "published"
        server.service.write(lambda tx: instance.pause(server.service, tx, instance.RESTORED)).result()
        assert eventually(lambda: server.engine.paused == instance.RESTORED)
    assert eventually(lambda: server.rows(Account, id=alice.bluesky)[0]["renewal_at"] is None)


def eventually(holds: Callable[[], bool]) -> bool:
    for _ in range(1000):
        if holds():
            return True
        sleep_briefly()
    return False


def killed(server: AppServer, account: str, point: str) -> int:
    settings = server.service.runtime.settings
    arguments = [str(settings.database_path), server.lab.origin("bluesky"), account]
    environment = {**os.environ, "SOCIALPUB_TEST": "1", "SOCIALPUB_FAULTS": f"{point}=kill"}
    run = subprocess.run([sys.executable, "-c", KILL, *arguments], env=environment, timeout=60, cwd=Path.cwd())
    return run.returncode


# All of them are in test_token_refresh_by_platform.py too, without a process.
RARE = [
    pytest.param(point, marks=pytest.mark.slow) for point in ("tok.after_intent", "tok.after_send", "tok.after_commit")
]


@pytest.mark.slow
@pytest.mark.parametrize("point", [*RARE, "tok.after_reply"])
def test_a_process_killed_while_it_renews_costs_no_account(server: AppServer, alice: Person, point: str) -> None:
    server.stop()
    assert killed(server, alice.bluesky, point) == -signal.SIGKILL
    server.start()
    alice.api = server.api(alice.key)
    (row,) = server.rows(Account, id=alice.bluesky)
    assert (row["renewal_at"] is None) == (point == "tok.after_commit")
    server.lab.lab.end_tokens("bluesky", access=True)
    assert publish(alice, f"after {point}")[0]["status"] == "published"
    (row,) = server.rows(Account, id=alice.bluesky)
    assert (row["status"], row["renewal_at"]) == ("active", None)
    assert sends(server, f"after {point}") == 1
    assert "token.revoked" not in [type_ for type_, _ in server.events()]
