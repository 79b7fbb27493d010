"""Recovery at a start and in sweeps: lost jobs, epochs, overdue posts, database copies."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from socialpub.base import fault_injection
from socialpub.domain.background import periodic_tasks, publishing_gate, recovery
from socialpub.domain.server import instance
from socialpub.store.engine.locks import StartError
from socialpub.store.jobs import job_queue
from socialpub.store.jobs.worker_slots import SLEEP_SECONDS_MAX
from socialpub.store.schema.models import Account, IdempotencyRecord, Instance, Job
from tests.support.app_server import AppServer, MovableClock, Person, error_of, format_instant
from tests.support.publishing_state import pause_reason, post_status, readiness, resume_publishing, schedule_post
from tests.support.soak.soak_world import wait_for

DAYS_MS = 48 * 3600 * 1000


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server whose rounds are short."""
    monkeypatch.setattr(job_queue, "SCHEDULER_SECONDS", 0.2)
    monkeypatch.setattr(publishing_gate, "PROBE_SECONDS", 0.2)
    yield
    fault_injection.plan("")


# --- Doorbells and overdue posts -------------------------------------------------------------------------------------


def test_a_row_without_a_job_rings_again(server: AppServer, alice: Person) -> None:
    post = schedule_post(server, alice, seconds=60)
    server.service.write(lambda tx: server.service.jobs.remove(tx, post)).result()
    periodic_tasks.sweep(server.service, server.engine.fetched)
    [job] = server.rows(Job, key=post)
    assert (job["visible_at"], job["serial_group"]) == (server.rows(id=post)[0]["scheduled_at"], alice.bluesky)
    server.skip(61)
    assert wait_for(lambda: post_status(server, post) == "published", 60)


def test_a_start_frees_the_accounts_whose_renewal_a_death_interrupted(server: AppServer, alice: Person) -> None:
    until = server.clock.now_ms() + DAYS_MS
    server.service.write(lambda tx: Account.update(renewing="the dead", renewing_until=until).execute()).result()
    server.restart(alice)
    assert {(row["renewing"], row["renewing_until"]) for row in server.rows(Account)} == {(None, None)}


def test_a_sweep_leaves_rows_alone_whose_job_is_there(server: AppServer, alice: Person) -> None:
    schedule_post(server, alice)
    before = server.rows(Job)
    periodic_tasks.sweep(server.service, server.engine.fetched)
    assert server.rows(Job) == before


def test_the_job_of_a_post_that_has_ended_is_deleted(server: AppServer, alice: Person) -> None:
    """As where a job was put for it in the moment in which it ended."""
    answer = alice.api.publish({"text": "once", "targets": [{"accountId": alice.bluesky}]}).json()
    post = answer["results"][0]["postId"]
    before = server.rows(id=post)
    jobs = server.service.jobs
    server.service.write(lambda tx: jobs.put(tx, "publish", post, server.clock.now_ms(), alice.bluesky)).result()
    assert wait_for(lambda: server.rows(Job) == [], 30)
    assert server.rows(id=post) == before
    assert len(server.lab.lab.ledger.posts()) == 1


@pytest.mark.parametrize("fault, ended", [(None, "published"), ("status:400", "rejected")])
def test_an_account_rests_after_a_late_post(
    make_server: Callable[..., AppServer], fault: str | None, ended: str
) -> None:
    server = make_server(scheduling={"overdue_spacing": 600})
    alice = server.connected_person("Alice")
    post = schedule_post(server, alice, seconds=60)
    server.lab.lab.faults.add([{"fault": fault, "operation": "com.atproto.repo.putRecord"}] if fault else [])
    server.skip(600)
    server.wait(post, ended)
    assert wait_for(lambda: server.service.jobs.groups.closed()[1] > 2 * SLEEP_SECONDS_MAX, 30)


@pytest.mark.parametrize("late, ended, rule", [(3500, "published", None), (3700, "failed", "schedule.overdue")])
def test_posts_due_during_downtime_are_published_within_the_grace_time(
    server: AppServer, alice: Person, late: int, ended: str, rule: str | None
) -> None:
    post = schedule_post(server, alice, seconds=60)
    server.away(60 + late)
    assert wait_for(lambda: post_status(server, post) == ended, 60)
    assert json.loads(server.rows(id=post)[0]["error"] or "{}").get("rule") == rule
    assert len(server.lab.lab.ledger.posts()) == (ended == "published")
    assert [name for name, _ in server.events(post)][-1] == f"post.{ended}"


def test_a_post_that_failed_as_overdue_can_be_published_now(server: AppServer, alice: Person) -> None:
    post = schedule_post(server, alice, seconds=60)
    server.away(7200, alice)
    assert wait_for(lambda: post_status(server, post) == "failed", 60)
    assert alice.api.post(f"/v1/posts/{post}/retry", json={}).status_code == 202
    assert wait_for(lambda: post_status(server, post) == "published", 60)
    assert len(server.lab.lab.ledger.posts()) == 1


def test_recovery_may_die_and_begin_again(server: AppServer, alice: Person) -> None:
    post = schedule_post(server, alice, seconds=60)
    leased = Job.update(epoch=1, visible_at=server.clock.now_ms() + 10**9).where(Job.key == post)
    server.service.write(lambda tx: leased.execute()).result()
    fault_injection.plan("recover.mid=raise@1-3")
    for _ in range(3):
        with pytest.raises(RuntimeError):
            recovery.recover(server.service)
    recovery.recover(server.service)
    server.skip(61)
    assert wait_for(lambda: post_status(server, post) == "published", 60)
    assert len(server.lab.lab.ledger.posts()) == 1


def test_a_start_ends_the_token_refreshes_of_the_run_before(server: AppServer, alice: Person) -> None:
    """Else the account's posts would wait for a process that is gone."""
    begun = Account.update(renewing="the run before", renewing_until=server.clock.now_ms() + 10**9)
    server.service.write(lambda tx: begun.execute()).result()
    recovery.recover(server.service)
    [account] = server.rows(Account, id=alice.bluesky)
    assert (account["renewing"], account["renewing_until"]) == (None, None)


def test_sweep_completes_a_response_that_its_request_could_not_write(server: AppServer, alice: Person) -> None:
    body = {"text": "answer", "targets": [{"accountId": alice.bluesky}]}
    alice.api.publish(body, key="k")
    forget = IdempotencyRecord.update(status=None, body=None)
    server.service.write(lambda tx: forget.execute()).result()
    periodic_tasks.sweep(server.service, server.engine.fetched)
    assert server.rows(Job) == []  # its request may still be at work
    server.skip(recovery.INTERRUPTED_MS / 1000 + 1)
    periodic_tasks.sweep(server.service, server.engine.fetched)
    assert wait_for(lambda: server.rows(IdempotencyRecord)[0]["status"] == 200, 60)
    assert alice.api.publish(body, key="k").json()["status"] == "published"


def test_a_response_is_completed_once_its_batch_has_ended(server: AppServer, alice: Person) -> None:
    at = format_instant(server.clock.now_ms() + 3_600_000)
    body = {"text": "answer", "targets": [{"accountId": alice.bluesky}], "scheduledAt": at}
    post = alice.api.publish(body, key="k").json()["results"][0]["postId"]
    forget = IdempotencyRecord.update(status=None, body=None)
    server.service.write(lambda tx: forget.execute()).result()
    server.skip(recovery.INTERRUPTED_MS / 1000 + 1)
    periodic_tasks.sweep(server.service, server.engine.fetched)
    looked = {"kind": "answer", "claims": 1, "epoch": None}
    assert wait_for(lambda: looked in [{name: job[name] for name in looked} for job in server.rows(Job)], 30)
    assert server.rows(IdempotencyRecord)[0]["status"] is None
    server.skip(3600)
    server.wait(post, "published")
    server.skip(60)
    assert wait_for(lambda: server.rows(IdempotencyRecord)[0]["status"] == 200, 30)
    assert server.rows(Job) == []


def test_the_response_of_a_batch_is_stored_for_its_own_key(server: AppServer, alice: Person) -> None:
    """Another request, which came first, is interrupted too, and its batch has not ended."""
    body = {"text": "answer", "targets": [{"accountId": alice.bluesky}]}
    at = format_instant(server.clock.now_ms() + 3_600_000)
    first = alice.api.publish({**body, "scheduledAt": at}, key="first").json()["id"]
    ended = alice.api.publish({**body, "text": "ended"}, key="ended").json()["id"]
    forget = IdempotencyRecord.update(status=None, body=None)
    server.service.write(lambda tx: forget.execute()).result()
    server.skip(recovery.INTERRUPTED_MS / 1000 + 1)
    periodic_tasks.sweep(server.service, server.engine.fetched)
    assert wait_for(lambda: 200 in [row["status"] for row in server.rows(IdempotencyRecord)], 30)
    assert {row["batch"]: row["status"] for row in server.rows(IdempotencyRecord)} == {first: None, ended: 200}


# --- One server for one file -----------------------------------------------------------------------------------------


def test_each_start_takes_a_new_epoch(server: AppServer, alice: Person) -> None:
    first = server.rows(Instance)[0]["epoch"]
    server.restart(alice)
    assert server.rows(Instance)[0]["epoch"] == first + 1
    assert server.service.jobs.epoch == first + 1


def test_a_writer_of_an_older_epoch_is_fenced_and_stops(server: AppServer, alice: Person) -> None:
    post = schedule_post(server, alice, seconds=60)
    stopped = threading.Event()
    server.engine.on_fenced = stopped.set
    with contextlib.closing(sqlite3.connect(server.home / "socialpub.db")) as another, another:
        another.execute("UPDATE instance SET epoch = epoch + 1")
    with alice.api.expecting_failure():
        refused = alice.api.publish({"text": "x", "targets": [{"accountId": alice.bluesky}]})
    assert (refused.status_code, error_of(refused)["rule"]) == (503, "storage.unavailable")
    assert stopped.wait(60)
    server.skip(61)
    assert not wait_for(lambda: server.lab.lab.ledger.posts(), 1)
    assert post_status(server, post) == "queued"


# --- Copies --------------------------------------------------------------------------------------------------------


def keep_copy(server: AppServer) -> Path:
    """The database as a careless copy: the server goes on after it."""
    copy = server.home / "copy.db"
    with contextlib.closing(sqlite3.connect(server.home / "socialpub.db")) as source:
        source.execute("VACUUM INTO ?", (str(copy),))
    return copy


def put_back(server: AppServer, copy: Path) -> None:
    for old in server.home.glob("socialpub.db*"):
        if old.suffix not in (".lock", ".write"):
            old.unlink()
    shutil.copy(copy, server.home / "socialpub.db")


@pytest.fixture
def behind(wall: MovableClock) -> None:
    """The server's clock is a minute behind the machine's, which commands have: what is due by it is due to them."""
    wall.set_ahead(-60)


@pytest.fixture
def restored(behind: None, server: AppServer, alice: Person) -> tuple[AppServer, Person, str]:
    """A server on a copy that was made before its post was published."""
    post = schedule_post(server, alice, "once", seconds=60)
    copy = keep_copy(server)
    server.skip(60)
    assert wait_for(lambda: post_status(server, post) == "published", 60)
    server.stop()
    put_back(server, copy)
    server.start()
    alice.api = server.api(alice.key)
    return server, alice, post


def test_copy_from_before_a_publish_starts_paused_and_reposts_nothing(
    restored: tuple[AppServer, Person, str],
) -> None:
    server, alice, post = restored
    assert pause_reason(server) == "restored"
    assert readiness(alice)["publishing"] == "paused"
    assert not wait_for(lambda: len(server.lab.lab.ledger.posts()) > 1, 2)
    assert post_status(server, post) == "queued"


def test_a_paused_server_reads_and_schedules_and_refuses_to_publish_now(
    restored: tuple[AppServer, Person, str],
) -> None:
    server, alice, _ = restored
    assert alice.api.get("/v1/posts").status_code == 200
    schedule_post(server, alice, "scheduled meanwhile")
    with alice.api.expecting_failure():
        refused = alice.api.publish({"text": "now", "targets": [{"accountId": alice.bluesky}]})
    assert (refused.status_code, error_of(refused)["rule"]) == (503, "service.paused")
    assert refused.headers["Retry-After"] == "60"
    assert len(server.lab.lab.ledger.posts()) == 1


def test_a_pause_survives_restarts(restored: tuple[AppServer, Person, str]) -> None:
    server, alice, _ = restored
    server.restart(alice)
    assert pause_reason(server) == "restored"
    assert not wait_for(lambda: len(server.lab.lab.ledger.posts()) > 1, 1)


def test_resume_wants_to_be_told_that_somebody_looked(
    restored: tuple[AppServer, Person, str], capsys: pytest.CaptureFixture[str]
) -> None:
    server, _, post = restored
    server.stop()
    assert resume_publishing(server) == 3
    told = capsys.readouterr()
    assert f"Post {post} on bluesky, due " in told.out
    assert ", is published now." in told.out
    assert "--after-restore" in told.err
    server.start()
    assert pause_reason(server) == "restored"


def test_resume_lists_what_is_overdue_and_skips_it_when_asked(
    restored: tuple[AppServer, Person, str], capsys: pytest.CaptureFixture[str]
) -> None:
    server, _, post = restored
    server.stop()
    assert resume_publishing(server, "--after-restore", "--skip-overdue", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["was"], told["paused"], told["publish"]) == ("restored", None, [])
    assert [row["id"] for row in told["skip"]] == [post]
    server.start()
    assert pause_reason(server) is None
    (row,) = server.rows(id=post)
    assert row["status"] == "failed"
    skipped = "late, and overdue posts were skipped when publishing was resumed."  # it was within the grace time
    assert json.loads(row["error"])["message"].endswith(skipped)
    assert len(server.lab.lab.ledger.posts()) == 1


def test_resume_reaches_a_running_server_within_its_round(restored: tuple[AppServer, Person, str]) -> None:
    """As the command would, from another process; the post is published again because somebody said so."""
    server, _, post = restored
    with contextlib.closing(sqlite3.connect(server.home / "socialpub.db")) as another, another:
        another.execute("UPDATE instance SET paused = NULL")
    assert wait_for(lambda: post_status(server, post) == "published", 60)


def test_overdue_beyond_the_grace_time_fails_when_the_pause_ends(restored: tuple[AppServer, Person, str]) -> None:
    server, _, post = restored
    server.clock.skip(7200)
    with contextlib.closing(sqlite3.connect(server.home / "socialpub.db")) as another, another:
        another.execute("UPDATE instance SET paused = NULL")
    assert wait_for(lambda: post_status(server, post) == "failed", 60)
    assert len(server.lab.lab.ledger.posts()) == 1


def test_a_database_without_its_state_file_starts_paused(server: AppServer, alice: Person) -> None:
    schedule_post(server, alice)
    server.stop()
    (server.home / "instance.state").unlink()
    server.start()
    assert pause_reason(server) == "restored"


def test_a_plain_restart_is_no_copy(server: AppServer, alice: Person) -> None:
    schedule_post(server, alice)
    for _ in range(3):
        server.restart(alice)
        assert pause_reason(server) is None


def test_a_database_that_lost_its_log_starts_paused(server: AppServer, alice: Person) -> None:
    """The newest transactions were in the log: the file says what was true before them."""
    schedule_post(server, alice)
    copy = {path: path.read_bytes() for path in server.home.glob("socialpub.db")}
    schedule_post(server, alice, "second")
    assert wait_for(
        lambda: server.engine._heartbeat.newest_event == server.service.read(instance.get_newest_event_number).result(),
        60,
    )
    server.stop()
    for path, content in copy.items():
        path.write_bytes(content)
        path.with_name("socialpub.db-wal").unlink(missing_ok=True)
    with contextlib.suppress(StartError):
        server.start()
        assert not server.rows() or pause_reason(server) == "restored"


# --- Files that are not as they should be ----------------------------------------------------------------------------


def test_a_missing_key_file_is_said_so_and_nothing_is_changed(
    server: AppServer, alice: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    server.stop()
    (server.home / "master.key").unlink()
    before = (server.home / "socialpub.db").read_bytes()
    assert resume_publishing(server, "--after-restore") == 1
    assert "the key file is missing" in capsys.readouterr().err
    assert not (server.home / "master.key").exists()
    assert (server.home / "socialpub.db").read_bytes() == before
