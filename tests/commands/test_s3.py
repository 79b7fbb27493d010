"""Backups in an S3 bucket: upload, listing, verification, restore, retention, errors."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from socialpub.base import s3
from socialpub.base.config import ConfigError, Settings
from socialpub.base.s3 import S3Bucket, S3BucketError
from socialpub.base.settings_sections import BackupSettings
from socialpub.base.system.sockets import listen
from socialpub.store.jobs import job_queue
from socialpub.store.jobs.job_queue import RetryTask
from tests.support.app_server import AppServer, Person
from tests.support.backup_commands import upload_file as upload
from tests.support.command_runner import CommandResult, run_command
from tests.support.publishing_state import schedule_post
from tests.support.s3_server import SECRET, S3Store, running_store

DAY = 86_400.0


@pytest.fixture
def store() -> Iterator[S3Store]:
    with running_store() as running:
        yield running


def of(store: S3Store, **more: Any) -> S3Bucket:
    return S3Bucket(BackupSettings(**store.settings(**more)))


def named(store: S3Store, **more: Any) -> dict[str, str]:
    """The settings of the bucket as the environment has them."""
    return {f"SOCIALPUB_BACKUP__{name.upper()}": str(value) for name, value in store.settings(**more).items()}


@pytest.fixture
def command(server: AppServer, store: S3Store, monkeypatch: pytest.MonkeyPatch) -> Callable[..., CommandResult]:
    """A command with the settings of the bucket, beside the server."""
    for name, value in named(store, s3_prefix="ours").items():
        monkeypatch.setenv(name, value)

    def run(*words: str, database: Path = server.home / "socialpub.db") -> CommandResult:
        return run_command(*words, "--json", "--database", str(database), cwd=server.home)

    return run


# --- Commands --------------------------------------------------------------------------------------------------------


def test_a_backup_goes_there_and_comes_back(
    server: AppServer, alice: Person, store: S3Store, command: Callable[..., CommandResult], tmp_path: Path
) -> None:
    post = schedule_post(server, alice, media=[upload(alice)])
    made = command("backup", "s3:mine.zip")
    assert (made.code, made.json["file"], made.json["ok"]) == (0, "s3://backups/ours/mine.zip", True), made.err
    assert list(store.objects["backups"]) == ["ours/mine.zip"]
    assert len(store.objects["backups"]["ours/mine.zip"]) == made.json["bytes"]
    found = command("verify", "s3:mine.zip")
    assert (found.code, found.json["sha256"]) == (0, made.json["sha256"])
    elsewhere = tmp_path / "elsewhere"
    restored = command("restore", "s3:mine.zip", database=elsewhere / "socialpub.db")
    assert (restored.code, restored.json["paused"], restored.json["mediaFiles"]) == (0, "restored", 1)
    for home in (server.home, elsewhere):
        assert not list(home.glob(".s3-*"))
    server.stop()
    shutil.copy(server.home / "master.key", elsewhere)
    server.home = elsewhere
    server.start()
    assert [row["id"] for row in server.rows()] == [post]


def test_a_restore_of_a_missing_object_leaves_nothing(command: Callable[..., CommandResult], tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    refused = command("restore", "s3:mine.zip", database=elsewhere / "socialpub.db")
    assert (refused.code, "there is no such backup in the bucket" in refused.error["message"]) == (1, True)
    assert not elsewhere.exists()


def test_the_servers_own_are_listed_with_where_they_are(store: S3Store, command: Callable[..., CommandResult]) -> None:
    for name in ("socialpub-20261121T000000Z.zip", "socialpub-20261122T000000Z.zip", "somebody-elses.txt"):
        store.objects["backups"][f"ours/{name}"] = b"12345"
    listed = command("backups").json
    assert [row["file"] for row in listed] == [
        "s3://backups/ours/socialpub-20261122T000000Z.zip",
        "s3://backups/ours/socialpub-20261121T000000Z.zip",
    ]
    assert listed[0] | {"file": ""} == {"madeAt": "2026-11-22T00:00:00.000Z", "bytes": 5, "file": ""}


def test_doctor_says_whether_the_bucket_can_be_used(
    store: S3Store, command: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOCIALPUB_SERVER__PORT", "1")

    def found() -> dict[str, Any]:
        checks = {each["name"]: each for each in command("doctor").json["checks"]}
        return dict(checks["backups in the bucket"])

    assert found() | {"name": ""} == {
        "name": "",
        "ok": True,
        "message": "it can be listed; 0 files are there",
        "remediation": "",
    }
    store.wrong = (403, "AccessDenied")
    assert (found()["ok"], found()["message"]) == (
        False,
        "s3://backups/ours/: the key may not do that in this bucket.",
    )


def test_without_a_bucket_in_the_settings_there_is_none(server: AppServer) -> None:
    for words in (("backup", "s3:a.zip"), ("verify", "s3:a.zip"), ("backups",)):
        ended = run_command(*words, "--database", str(server.home / "socialpub.db"), cwd=server.home)
        assert (ended.code, "backup.s3_endpoint" in ended.err) == (3, True), ended.err


# --- Bounds ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_large_file_goes_in_parts_and_comes_back_whole(store: S3Store, tmp_path: Path) -> None:
    content = os.urandom(s3.PART_BYTES * 2 + 17)
    file = tmp_path / "large"
    file.write_bytes(content)
    seen: list[int] = []
    of(store).put(file, "large", seen.append)
    assert store.objects["backups"] == {"large": content}
    assert sum(seen) == len(content)
    assert sum("partNumber" in path for _, path in store.calls) == 3
    with (tmp_path / "back").open("wb") as into:
        of(store).get("large", into, seen.append)
    assert (tmp_path / "back").read_bytes() == content


def test_an_upload_that_is_given_up_leaves_nothing_there(store: S3Store, tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(bytes(s3.PART_BYTES * 2))

    def stop(count: int) -> None:
        if store.parts.get("u1"):
            raise KeyError("the server stops")

    with pytest.raises(KeyError):
        of(store).put(file, "large", stop)
    assert (store.objects["backups"], store.parts) == ({}, {})


# --- Failures, in words ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"s3_bucket": "nowhere"}, "s3://nowhere/a.zip: there is no such bucket."),
        ({"s3_secret_key": "another"}, "backup.s3_secret_key is not the one of backup.s3_access_key."),
        ({"s3_access_key": "another"}, "the store does not know backup.s3_access_key."),
        ({"s3_region": "elsewhere"}, "the bucket is in another region: see backup.s3_region."),
        ({}, "s3://backups/a.zip: there is no such backup in the bucket."),
    ],
)
def test_what_the_store_refuses_is_said_in_words(store: S3Store, tmp_path: Path, more: Any, says: str) -> None:
    with (tmp_path / "into").open("wb") as into, pytest.raises(S3BucketError) as caught:
        of(store, **more).get("a.zip", into, lambda count: None)
    assert says in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ((403, "AccessDenied"), "the key may not do that in this bucket."),
        ((403, "RequestTimeTooSkewed"), "this machine's clock is wrong."),
        ((400, "SomethingElse"), "SomethingElse: no."),
    ],
)
def test_other_refusals_too(store: S3Store, wrong: tuple[int, str], says: str) -> None:
    store.wrong = wrong
    with pytest.raises(S3BucketError) as caught:
        of(store).list_files()
    assert says in str(caught.value)


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    with listen("127.0.0.1", 0) as nobody:
        port = nobody.getsockname()[1]
    gone = BackupSettings(s3_endpoint=f"http://127.0.0.1:{port}", s3_bucket="bbb", s3_access_key="a", s3_secret_key="s")
    with pytest.raises(S3BucketError, match=f"http://127.0.0.1:{port} cannot be reached"):
        S3Bucket(gone).list_files()


ODD_STATUSES = (200, 204, 301, 403, 404, 412)
ODD_BODIES = (b"", b"<html>", b"<html></html>", b'{"a": 1}', b"\xff\xfe", b"<Error/>", b"<ListBucketResult/>")
BUCKET_CALLS: dict[str, Callable[[S3Bucket, Path], Any]] = {
    "list": lambda bucket, file: bucket.list_files(),
    "size": lambda bucket, file: bucket.size("a.zip"),
    "get": lambda bucket, file: bucket.get("a.zip", io.BytesIO(), lambda count: None),
    "put": lambda bucket, file: bucket.put(file, "a.zip", lambda count: None),
    "remove": lambda bucket, file: bucket.remove("a.zip"),
}


@pytest.mark.parametrize("call", BUCKET_CALLS)
def test_no_odd_response_of_a_store_ends_in_a_traceback(store: S3Store, tmp_path: Path, call: str) -> None:
    bucket, file = of(store), tmp_path / "a.zip"
    file.write_bytes(b"12345")
    for store.odd in itertools.product(ODD_STATUSES, ODD_BODIES):
        with contextlib.suppress(S3BucketError):
            BUCKET_CALLS[call](bucket, file)


def test_half_the_settings_are_refused_and_the_secret_is_never_shown(store: S3Store) -> None:
    with pytest.raises(ValueError, match="s3_endpoint also needs s3_bucket, s3_access_key, s3_secret_key"):
        BackupSettings(s3_endpoint="https://s3.example.com")
    assert SECRET not in repr(Settings(backup=store.settings()))


def test_without_the_package_a_server_with_a_bucket_does_not_start(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "minio", None)
    with pytest.raises(ConfigError, match='pip install "socialpub\\[s3\\]"'):
        s3.check_settings(BackupSettings(**store.settings()))
    s3.check_settings(BackupSettings())


# --- By itself -------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Backups are made when the test says so, and not on the server's timer."""
    monkeypatch.setattr(job_queue, "SCHEDULER_SECONDS", 3600.0)


def look(server: AppServer) -> None:
    """One look, as the timer makes it."""
    with contextlib.suppress(RetryTask):
        server.engine.periodic.backups.run_due()


def test_a_backup_a_day_goes_there_and_the_oldest_are_removed(
    make_server: Callable[..., AppServer], store: S3Store
) -> None:
    server = make_server(backup=store.settings(every=DAY, keep=2))
    store.objects["backups"]["mine.zip"] = b"mine"
    look(server)
    (first,) = set(store.objects["backups"]) - {"mine.zip"}
    look(server)
    assert len(store.objects["backups"]) == 2
    server.restart()
    look(server)
    assert len(store.objects["backups"]) == 2
    for _ in range(2):
        server.clock.skip(DAY)
        look(server)
    kept = set(store.objects["backups"])
    assert (len(kept), first in kept, "mine.zip" in kept) == (3, False, True)
    assert not list(server.home.glob(".s3-*"))


def test_backups_made_while_the_clock_was_ahead_stop_none(
    make_server: Callable[..., AppServer], store: S3Store, tmp_path: Path
) -> None:
    """None was made until that time had come, and then the newer ones were removed as the oldest."""
    folder = tmp_path / "backups"
    server = make_server(backup=store.settings(every=DAY, keep=1, directory=str(folder)))
    server.clock.set_ahead(400 * DAY)
    look(server)
    (ahead,) = folder.iterdir()
    server.clock.right()
    look(server)
    (made,) = set(folder.iterdir()) - {ahead}
    assert set(store.objects["backups"]) == {ahead.name, made.name}
    look(server)
    server.clock.skip(DAY)
    look(server)
    (newest,) = set(folder.iterdir()) - {ahead}
    assert newest != made
    assert set(store.objects["backups"]) == {ahead.name, newest.name}


def test_with_a_folder_the_bucket_gets_the_same_file(
    make_server: Callable[..., AppServer], store: S3Store, tmp_path: Path
) -> None:
    server = make_server(backup=store.settings(every=DAY, keep=2, directory=str(tmp_path / "backups")))
    look(server)
    (file,) = (tmp_path / "backups").iterdir()
    assert store.objects["backups"] == {file.name: file.read_bytes()}


def test_store_refusal_is_reported_and_retried_and_the_backup_is_kept(
    make_server: Callable[..., AppServer], store: S3Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = make_server(backup=store.settings(every=DAY, directory=str(tmp_path / "backups")))
    store.wrong = (403, "AccessDenied")
    look(server)
    assert (
        "the backup failed and is retried in 10 minutes: s3://backups/: the key may not do that in this bucket."
        in caplog.text
    )
    (file,) = (tmp_path / "backups").iterdir()
    store.wrong = None
    look(server)
    assert list(store.objects["backups"]) == [file.name]


def test_no_signature_and_no_secret_stands_in_the_log(
    make_server: Callable[..., AppServer], store: S3Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    look(make_server(backup=store.settings(every=DAY)))
    assert SECRET not in caplog.text
    assert "Signature=" not in json.dumps(caplog.messages)
