"""Periodic tasks on Huey: intervals by the server clock, retries, no overlap."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from huey.api import Huey
from huey.consumer import Consumer, Scheduler
from huey.storage import BaseStorage

from socialpub.base.errors import rule_error
from socialpub.base.observability import metrics
from socialpub.store.jobs import job_queue
from socialpub.store.jobs.job_queue import MEMORY_TASKS_MAX, IntervalSchedule, retry_without_storage
from tests.support.app_server import AppServer, format_instant, sleep_briefly
from tests.support.soak.soak_world import wait_for

ROOT = Path(__file__).parents[4]


@pytest.fixture
def brisk(make_server: Callable[..., AppServer], monkeypatch: pytest.MonkeyPatch) -> AppServer:
    """A server whose rounds are short."""
    monkeypatch.setattr(job_queue, "SCHEDULER_SECONDS", 0.02)
    return make_server()


def failures(task: str) -> float:
    return metrics.REGISTRY.get_sample_value("socialpub_task_failures_total", {"task": task}) or 0.0


def test_a_task_runs_each_time_its_interval_has_passed(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, ran = server.service.jobs, threading.Semaphore(0)
    jobs.periodic_task(IntervalSchedule(3600, first=60), name="hourly")(ran.release)
    clock = server.clock.monotonic()
    monkeypatch.setattr(server.clock, "monotonic", lambda: clock)

    def is_taken() -> bool:
        return "hourly" in [task.name for task in jobs.read_periodic(None)]

    assert not is_taken()
    for seconds, is_due in ((59, False), (1, True), (3599, False), (1, True), (7200, True)):
        clock += seconds
        taken = is_taken()
        assert is_due or not taken
        assert not is_due or taken or ran.acquire(timeout=60)  # the server's own round was there first
        assert not is_taken()
    assert not ran.acquire(blocking=False)


def test_a_task_that_fails_is_counted_and_tried_again_after_its_delay(
    brisk: AppServer, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[float] = []

    def fail() -> None:
        tries.append(brisk.clock.monotonic())
        raise ValueError("a bug")

    def has_tried(times: int) -> bool:
        """Its next try is planned after it has failed, by the clock of that moment: each look moves the clock."""
        if len(tries) < times:
            brisk.skip(601)
        return len(tries) == times

    before = failures("failing")
    brisk.service.jobs.periodic_task(IntervalSchedule(86_400), name="failing", retries=2, retry_delay=600)(fail)
    for number in (1, 2, 3):
        assert wait_for(functools.partial(has_tried, number), 60)
    assert wait_for(lambda: failures("failing") - before == 3, 60)
    brisk.skip(3600)
    assert len(tries) == 3
    assert all(later - sooner >= 600 for sooner, later in zip(tries, tries[1:], strict=False))
    assert "Unhandled exception in task failing" in caplog.text


def test_a_task_is_tried_until_something_can_be_written(brisk: AppServer, caplog: pytest.LogCaptureFixture) -> None:
    tries: list[int] = []

    def write() -> None:
        tries.append(1)
        if len(tries) < 5:
            raise rule_error("storage.unavailable")

    brisk.service.jobs.periodic_task(IntervalSchedule(86_400), name="writing", retries=1, retry_delay=0.01)(
        retry_without_storage(write)
    )
    assert wait_for(lambda: len(tries) == 5, 60)
    assert "Traceback" not in caplog.text


def test_a_task_that_is_still_running_is_not_begun_again(brisk: AppServer) -> None:
    begun, over, running = threading.Semaphore(0), threading.Event(), list[int]()

    def long() -> None:
        running.append(1)
        begun.release()
        over.wait(30)

    brisk.service.jobs.periodic_task(lambda now: True, name="long")(long)
    assert begun.acquire(timeout=20)
    heartbeat = brisk.engine.heartbeat
    while brisk.engine.heartbeat < heartbeat + 0.2:
        sleep_briefly()
    assert len(running) == 1
    over.set()
    assert begun.acquire(timeout=20)


def test_a_due_post_goes_out_while_tasks_take_all_their_places(brisk: AppServer) -> None:
    begun, over = threading.Semaphore(0), threading.Event()

    def long() -> None:
        begun.release()
        over.wait(60)

    alice = brisk.connected_person("Alice")
    for number in range(MEMORY_TASKS_MAX + 2):
        brisk.service.jobs.periodic_task(IntervalSchedule(86_400), name=f"long {number}")(long)
    for _ in range(MEMORY_TASKS_MAX):
        assert begun.acquire(timeout=20)
    try:
        due = format_instant(brisk.clock.now_ms() + 3_600_000)
        body = {"text": "on time", "targets": [{"accountId": alice.bluesky}], "scheduledAt": due}
        post = alice.api.publish(body).json()["results"][0]["postId"]
        brisk.skip(3601)
        brisk.wait(post, "published")
    finally:
        over.set()


# --- Huey by its public interface ---


def test_hueys_clock_is_its_only_private_name_and_one_file_uses_huey() -> None:
    pairs = (
        (job_queue.JobQueue, Huey),
        (job_queue._JobStorage, BaseStorage),
        (job_queue._JobScheduler, Scheduler),
        (job_queue._JobConsumer, Consumer),
    )
    private = {
        name for ours, theirs in pairs for name in vars(ours) if re.match("_[^_]", name) and hasattr(theirs, name)
    }
    assert private == {"_get_timestamp"}
    files = (ROOT / "socialpub").rglob("*.py")
    assert {path.name for path in files if re.search(r"^(from|import) huey", path.read_text(), re.M)} == {
        "job_queue.py"
    }


# --- Threads ---------------------------------------------------------------------------------------------------------


def test_the_threads_of_a_running_server_are_those_of_the_table(make_server: Callable[..., AppServer]) -> None:
    """docs/architecture.md: five rows, and every thread's name in one of them."""
    before = set(threading.enumerate())
    server = make_server()
    alice = server.connected_person("Alice")
    alice.api.publish({"text": "now", "targets": [{"accountId": alice.bluesky}]})
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.split("## Threads")[1].split("##")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    assert len(rows) <= 5
    named = {name for row in rows for name in re.findall(r"`([\w-]+)`", row.split("|")[1])}
    running = {re.sub(r"-\d+$|_\d+$", "-N", thread.name) for thread in set(threading.enumerate()) - before}
    assert {"db-writer", "Scheduler", "Worker-N", "deliverer"} <= running
    assert running <= named
