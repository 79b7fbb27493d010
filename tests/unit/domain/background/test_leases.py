"""Renewal of job leases during sends, and their release at a start."""

from __future__ import annotations

import time

import pytest

from socialpub.store.jobs import job_queue
from socialpub.store.jobs.leases import LEASE_MS
from socialpub.store.schema.models import Job
from tests.support.app_server import AppServer, Person, sleep_briefly
from tests.support.publishing_protocol import claim_post


def test_the_lease_of_a_post_that_is_being_sent_is_renewed(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_queue, "SCHEDULER_SECONDS", 0.05)
    server.restart(alice)
    with server.lab.lab.lock:  # the platform does nothing while the test holds it: the send has no answer
        body = {"text": "slow", "targets": [{"accountId": alice.bluesky}]}
        answer = alice.api.post("/v1/posts", json=body, headers={"Prefer": "respond-async"})
        post = answer.json()["results"][0]["postId"]
        deadline = time.monotonic() + 30
        for _ in range(3):  # together longer than a lease
            server.skip(LEASE_MS / 2000)
            while server.rows(Job, key=post)[0]["visible_at"] < server.clock.now_ms() + LEASE_MS * 3 // 4:
                assert time.monotonic() < deadline, "the lease is not renewed"
                sleep_briefly()
        assert [job["claims"] for job in server.rows(Job, key=post)] == [1]
    assert server.wait(post, "published")["attempts"] == 1
    assert len(server.lab.lab.ledger.posts()) == 1


def test_a_start_frees_the_leases_of_the_run_before(server: AppServer, alice: Person) -> None:
    """A process that died has sent, or not: the next one looks at once, and not when the lease has run out."""
    post = claim_post(server, alice).post["id"]
    (job,) = server.rows(Job, key=post)
    assert job["visible_at"] > server.clock.now_ms() + LEASE_MS
    server.restart(alice)
    with server.hurried():
        server.wait(post, "published", seconds=30)
    assert len(server.lab.lab.ledger.posts()) == 1
