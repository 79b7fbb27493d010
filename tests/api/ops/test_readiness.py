"""Readiness: failing disks, folders and keys of a running server are reported."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from socialpub.base import fault_injection
from socialpub.base.security.crypto import MasterKey
from socialpub.store.jobs import job_queue
from socialpub.store.schema.models import Instance
from tests.support.app_server import AppServer, Person, error_of, format_instant
from tests.support.media_files import picture
from tests.support.publishing_state import post_status
from tests.support.soak.soak_world import wait_for


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server whose rounds are short."""
    monkeypatch.setattr(job_queue, "SCHEDULER_SECONDS", 0.2)
    yield
    fault_injection.plan("")


def not_ready(person: Person) -> str:
    """What readyz says is wrong."""
    with person.api.expecting_failure():
        answer = person.api.get("/readyz")
    assert (answer.status_code, error_of(answer)["rule"]) == (503, "storage.unavailable")
    assert int(answer.headers["Retry-After"]) > 0
    return str(error_of(answer)["message"])


def upload(person: Person) -> httpx.Response:
    with person.api.expecting_failure():
        return person.api.post("/v1/media", files={"file": ("a.jpg", picture(), "image/jpeg")})


def refused(answer: httpx.Response) -> str:
    assert (answer.status_code, error_of(answer)["rule"]) == (503, "storage.unavailable"), answer.text
    return str(error_of(answer)["message"])


# --- Media -------------------------------------------------------------------------------------------------------


def gone(folder: Path) -> None:
    shutil.rmtree(folder)


def a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("in the way")


def a_broken_link(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.symlink_to("/nonexistent/disk")


TROUBLES = [(gone, "is gone"), (a_file, "is not a folder"), (a_broken_link, "is not a folder")]


@pytest.mark.parametrize("happens, words", TROUBLES)
def test_a_media_folder_that_is_lost_is_told_and_fails_no_post(
    server: AppServer, alice: Person, happens: Callable[[Path], None], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    media = upload(alice).json()
    body = {
        "text": "with an image",
        "targets": [{"accountId": alice.bluesky}],
        "media": [{"kind": "image", "mediaId": media["id"]}],
        "scheduledAt": format_instant(server.clock.now_ms() + 3600_000),
    }
    post = alice.api.publish(body).json()["results"][0]["postId"]
    folder, kept = server.home / "media", server.home / "kept"
    shutil.copytree(folder, kept)
    happens(folder)
    assert not_ready(alice) == f"The media folder {words}."
    with alice.api.expecting_failure():
        assert words in refused(alice.api.get(media["url"]))
    server.skip(3601)
    assert wait_for(lambda: any("this run cannot continue now" in line for line in caplog.messages), 60)
    assert server.lab.lab.ledger.posts() == []
    assert post_status(server, post) in ("queued", "publishing")

    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)
    kept.rename(folder)
    with alice.api.expecting_failure():
        assert wait_for(lambda: alice.api.get("/readyz").status_code == 200, 60)  # the scheduler's clock was set too
    server.skip(61)  # the lease runs out
    assert wait_for(lambda: post_status(server, post) == "published", 60)
    assert len(server.lab.lab.ledger.posts()) == 1


def test_an_upload_into_a_file_says_what_is_wrong(server: AppServer, alice: Person) -> None:
    (server.home / "media").write_text("in the way")
    assert refused(upload(alice)) == "Files cannot be used: a file has the name of its folder."
    assert not_ready(alice) == "The media folder is not a folder."


def test_a_disk_that_fills_up_under_an_upload_says_so(server: AppServer, alice: Person) -> None:
    fault_injection.plan("media.write=enospc")
    assert refused(upload(alice)) == "Files cannot be used: the disk is full."
    fault_injection.plan("")
    assert upload(alice).status_code == 201


def test_a_data_folder_that_is_gone_is_told(make_server: Callable[..., AppServer], tmp_path: Path) -> None:
    data = tmp_path / "elsewhere"
    data.mkdir()
    server = make_server(storage={"data_dir": str(data)})
    alice = server.person("Alice")
    assert alice.api.get("/readyz").status_code == 200
    kept = data.rename(tmp_path / "kept")
    assert not_ready(alice) == "The data folder is gone."
    kept.rename(data)
    assert alice.api.get("/readyz").status_code == 200


# --- The database ------------------------------------------------------------------------------------------------


def test_a_full_disk_is_known_to_readyz_until_something_can_be_written(server: AppServer, alice: Person) -> None:
    assert alice.api.get("/readyz").status_code == 200
    fault_injection.plan("db.commit=enospc")
    with alice.api.expecting_failure():
        body = {"text": "x", "targets": [{"accountId": alice.bluesky}]}
        said = refused(alice.api.publish(body))
    assert said == "Nothing can be written at the moment: the disk is full."
    assert not_ready(alice) == said
    fault_injection.plan("")
    assert alice.api.get("/readyz").status_code == 200
    assert server.lab.lab.ledger.posts() == []


def test_a_disk_with_little_room_is_tried_with_a_true_write(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = beat_row(server)
    assert alice.api.get("/readyz").status_code == 200
    assert beat_row(server) == before  # an idle server writes nothing
    usage = shutil.disk_usage(server.home)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1024))
    server.clock.skip(1)
    assert alice.api.get("/readyz").status_code == 200
    assert beat_row(server) > before


def beat_row(server: AppServer) -> int:
    return int(server.rows(Instance)[0]["seen_at"])


# --- The key -----------------------------------------------------------------------------------------------------


def another_key(path: Path) -> None:
    path.write_text(base64.b64encode(MasterKey(b"k" * 32).raw).decode())


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


KEYS = [
    (lambda path: path.unlink(), "is gone"),
    (lambda path: path.write_text("k"), "holds no key"),
    (a_folder, "cannot be read: it is a folder, and a file is needed"),
    (another_key, "holds another key"),
]


@pytest.mark.parametrize("happens, words", KEYS)
def test_a_key_file_that_the_next_start_could_not_use_is_known_now(
    server: AppServer, alice: Person, happens: Callable[[Path], None], words: str
) -> None:
    """While there is a process that still has the key: afterwards nobody has it."""
    path = server.home / "master.key"
    content = path.read_bytes()
    happens(path)
    assert not_ready(alice) == f"The key file {words}."
    body = {"text": "goes on", "targets": [{"accountId": alice.bluesky}]}
    assert alice.api.publish(body).json()["status"] == "published"
    if path.is_dir():
        path.rmdir()
    path.write_bytes(content)
    assert alice.api.get("/readyz").status_code == 200
