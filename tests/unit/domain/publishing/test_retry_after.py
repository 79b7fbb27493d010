"""Retry-After in answers about throttled posts, boards and account connections."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import pytest

from socialpub.simulator.server import SimulatorThread
from socialpub.store.schema.models import Post
from tests.support.app_server import AppServer, sleep_briefly
from tests.support.connect_flow import open_connect_session
from tests.support.media_files import mp4
from tests.support.token_accounts import TokenAccount


@pytest.fixture
def pinner(connect_account: Callable[..., TokenAccount]) -> TokenAccount:
    return connect_account("pinterest")


def slows_down(simulator: SimulatorThread, operation: str, platform: str = "pinterest") -> None:
    fault = {"fault": "status:429", "operation": operation, "platform": platform, "retryAfter": 77}
    simulator.lab.faults.add([fault])


def test_an_immediate_post_is_told_when_to_come_again(pinner: TokenAccount) -> None:
    slows_down(pinner.server.lab, "pins.create")
    (row,) = pinner.publish()
    error = json.loads(row["error"])
    assert (row["status"], error["code"], error["retryAfter"]) == ("failed", "platform_unavailable", 77)
    assert error["message"].endswith(" It asks to wait 77 seconds.")
    assert pinner.api.get(f"/v1/posts/{row['id']}").json()["error"]["retryAfter"] == 77


def test_who_asks_for_boards_is_told_in_the_header(pinner: TokenAccount) -> None:
    slows_down(pinner.server.lab, "boards.list")
    with pinner.api.expecting_failure():
        answer = pinner.api.get(f"/v1/accounts/{pinner.account}/pinterest/boards")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "77")


def test_who_connects_is_told_in_the_header(
    make_server: Callable[..., AppServer], lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = open_connect_session(make_server, lab, monkeypatch, "linkedin")
    office.login_exists()
    back = office.visit(office.start())
    slows_down(office.server.lab, "oauth.token", "linkedin")
    with office.browser.expecting_failure():
        answer = office.complete(code=back["code"], state=back["state"])
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "77")


@pytest.mark.parametrize(
    ("platform", "operation", "status"), [("linkedin", "videos.get", 503), ("pinterest", "media.get", 429)]
)
def test_an_upload_never_waits_for_days(
    connect_account: Callable[..., TokenAccount], platform: str, operation: str, status: int
) -> None:
    holder = connect_account(platform)
    server = holder.server
    fault = {"fault": f"status:{status}", "operation": operation, "times": 1, "retryAfter": 86_400}
    server.lab.lab.faults.add([fault])
    video = {"kind": "video", "bytesBase64": base64.b64encode(mp4(seconds=5.0)).decode()}
    post = holder.api.publish(holder.body() | {"media": [video]}).json()["results"][0]["postId"]
    while not _waits(server, post):
        sleep_briefly()
    if platform == "pinterest":  # the first look at the status comes after a moment
        server.skip(3)
        while not (server.lab.lab.faults.body()[0]["fired"] and _waits(server, post)):
            sleep_briefly()
    server.skip(3601)
    assert server.wait(post, "published")["attempts"] == 1


def _waits(server: AppServer, post: str) -> bool:
    """Whether the post waits for its next step."""
    (row,) = server.rows(Post, id=post)
    return bool(row["due_at"] and row["due_at"] > server.service.now_ms)
