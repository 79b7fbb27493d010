"""Storage errors of a service user, at start and while running, and the recovery.

Root may use everything: these processes are root's without that right, and as another user they are the test's own.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.support import forked_commands
from tests.support.app_server import error_of, format_instant
from tests.support.command_runner import (
    TOKENS,
    CommandProcess,
    CommandResult,
    command_environment,
    read_address,
    run_command,
    running_commands,
)
from tests.support.media_files import picture
from tests.support.soak.soak_world import wait_for

RIGHTS = "-dac_override,-dac_read_search"  # to files that their modes close
ALONE = ("setpriv", "--bounding-set", RIGHTS, "--inh-caps", RIGHTS) if os.geteuid() == 0 else ()
SERVE, CREATE = ("serve", "--port", "0", "--json"), ("org", "create", "Acme", "--json")
FAR_MS = 10**13  # year 2286
Hurt = Callable[[Path], object]


alone = functools.partial(forked_commands.start_fork, before=ALONE)


def ended(folder: Path, *words: str) -> CommandResult:
    return run_command(*words, cwd=folder, begin=alone)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of an organization, as the command leaves it that has made it; no server has run on it."""
    home = tmp_path_factory.mktemp("made")
    done = ended(home, *CREATE)
    assert done.code == 0, done.err
    return home


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    """A data folder like that, of the test's own."""
    return shutil.copytree(made, tmp_path / "data")


# --- At the start ------------------------------------------------------------------------------------------------


def closed(name: str, mode: int = 0, *, a_folder: bool = False) -> Hurt:
    """A file (or folder) of the server's user that its mode closes to it."""

    def close(data: Path) -> None:
        path = data / name
        if a_folder:
            path.mkdir(exist_ok=True)
        else:
            path.touch()
        path.chmod(mode)

    return close


NOT_READ, NOT_WRITTEN = "this user may not read it", "this user may not write it, or the disk is read-only"
NOTHING_NEW = "this user may not write into its folder, or the disk is read-only"
CLOSED: list[tuple[str, Hurt, str, str]] = [  # what `serve` says, and what other commands say
    (
        "folder",
        lambda data: data.chmod(0o500),
        f"cannot write beside the database: {{data}}/socialpub.db.lock: {NOTHING_NEW}",
        f"socialpub.db cannot be used: {NOTHING_NEW}. Nothing was changed.",
    ),
    (
        "database",
        closed("socialpub.db"),
        f"socialpub.db cannot be used: {NOT_READ}. Nothing was changed.",
        f"socialpub.db cannot be used: {NOT_READ}. Nothing was changed.",
    ),
    (
        "database to be read only",
        closed("socialpub.db", 0o400),
        f"socialpub.db cannot be used: {NOT_WRITTEN}. Nothing was changed.",
        f"socialpub.db cannot be used: {NOT_WRITTEN}. Nothing was changed.",
    ),
    (
        "lock",
        closed("socialpub.db.lock"),
        f"cannot write beside the database: {{data}}/socialpub.db.lock: {NOT_READ}",
        f"{{data}}/socialpub.db.lock cannot be used: {NOT_READ}. Nothing was changed.",
    ),
    (
        "lock of writes",
        closed("socialpub.db.write"),
        f"{{data}}/socialpub.db.write cannot be used: {NOT_READ}. Nothing was changed.",
        f"{{data}}/socialpub.db.write cannot be used: {NOT_READ}. Nothing was changed.",
    ),
    (
        "key",
        closed("master.key"),
        f"{{data}}/master.key: the key file cannot be used: {NOT_READ}",
        f"{{data}}/master.key: the key file cannot be used: {NOT_READ}",
    ),
    (
        "state",
        closed("instance.state"),
        "{data}/instance.state cannot be read: this user may not use it. Remove it to start paused.",
        "{data}/instance.state cannot be read: this user may not use it. Remove it to start paused.",
    ),
    (
        "media",
        closed("media", a_folder=True),
        "{data}: the media folder cannot be read and written",
        "{data}: the media folder cannot be read and written",
    ),
    (
        "settings",
        closed("socialpub.toml"),
        "socialpub.toml: the settings file cannot be read: this user may not use it",
        "socialpub.toml: the settings file cannot be read: this user may not use it",
    ),
]


@pytest.mark.matrix
@pytest.mark.parametrize("hurt, served, others", [case[1:] for case in CLOSED], ids=[case[0] for case in CLOSED])
def test_what_its_user_may_not_use_is_one_sentence_at_the_start(
    data: Path, hurt: Hurt, served: str, others: str
) -> None:
    hurt(data)
    before = contents(data)
    for words, said in ((SERVE, served), (CREATE, others)):
        told = ended(data, *words)
        said = said.format(data=data)
        assert (told.code, told.error["message"], told.err) == (1, said, f"socialpub: {said}\n")
    after = contents(data)
    after.pop("socialpub.db.lock", None)
    assert after == {name: held for name, held in before.items() if name != "socialpub.db.lock"}


def contents(data: Path) -> dict[str, bytes]:
    """What the files hold; as whoever runs the tests may read it."""
    found = {}
    for path in data.iterdir():
        with contextlib.suppress(PermissionError):
            found[path.name] = path.read_bytes() if path.is_file() else b""
    return found


# --- While it runs -----------------------------------------------------------------------------------------------


@pytest.fixture
def start() -> Iterator[Callable[[Path], CommandProcess]]:
    """Serve a data folder in a process of its own, which ends with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda data: stack.enter_context(running_commands(data, alone))("serve", "--port", "0")


@contextlib.contextmanager
def client(process: CommandProcess, key: str) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=read_address(process), headers=headers, timeout=60) as found:
        yield found


def a_key(data: Path) -> str:
    return str(json.loads(ended(data, "key", "create", "--json").out)["key"])


def not_ready(client: httpx.Client) -> str:
    answer = client.get("/readyz")
    assert (answer.status_code, error_of(answer)["rule"]) == (503, "storage.unavailable")
    assert int(answer.headers["Retry-After"]) > 0
    return str(error_of(answer)["message"])


def is_ready(client: httpx.Client) -> bool:
    return client.get("/readyz").status_code == 200


def upload(client: httpx.Client) -> tuple[int, str]:
    answer = client.post("/v1/media", files={"file": ("a.jpg", picture(), "image/jpeg")})
    return answer.status_code, "" if answer.is_success else error_of(answer)["message"]


RUNNING: list[tuple[str, str, int, str, tuple[int, str]]] = [  # path, its mode, what readyz says, and an upload
    (
        "folder",
        ".",
        0o500,
        "The data folder cannot be written.",
        (503, "Files cannot be used: this user may not use it."),
    ),
    ("key", "master.key", 0, "The key file cannot be read: this user may not use it.", (201, "")),
    (
        "media",
        "media",
        0,
        "The media folder cannot be read and written.",
        (503, "Files cannot be used: this user may not use it."),
    ),
]


@pytest.mark.matrix
@pytest.mark.parametrize("name, mode, words, uploaded", [case[1:] for case in RUNNING], ids=[c[0] for c in RUNNING])
def test_lost_permissions_are_reported_while_running_and_cleared_later(
    data: Path,
    start: Callable[[Path], CommandProcess],
    name: str,
    mode: int,
    words: str,
    uploaded: tuple[int, str],
) -> None:
    key = a_key(data)
    server = start(data)
    with client(server, key) as api:
        if name != ".":
            assert upload(api) == (201, "")
        path = data / name
        before = path.stat().st_mode
        path.chmod(mode)
        assert not_ready(api) == words
        assert upload(api) == uploaded
        assert api.get("/v1/posts").status_code == 200
        path.chmod(before)
        assert wait_for(lambda: is_ready(api), 60)
        assert upload(api) == (201, "")
    assert server.stop() == 0
    assert "Traceback" not in server.popen.stderr.read()  # type: ignore[union-attr]


def test_locks_closed_under_a_running_server_change_nothing(
    data: Path, start: Callable[[Path], CommandProcess]
) -> None:
    """It holds them open; whoever comes later is told."""
    key = a_key(data)
    server = start(data)
    with client(server, key) as api:
        for name in ("socialpub.db.lock", "socialpub.db.write"):
            (data / name).chmod(0)
        assert is_ready(api)
        assert upload(api) == (201, "")
        told = ended(data, *CREATE)
        assert (told.code, told.error["message"]) == (
            1,
            f"{data}/socialpub.db.lock cannot be used: {NOT_READ}. Nothing was changed.",
        )
    assert server.stop() == 0


# --- A disk that is full -----------------------------------------------------------------------------------------


@pytest.fixture
def disk(made: Path, tmp_path: Path) -> Iterator[Path]:
    """A data folder on a disk of its own, of 6 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "none", place], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(
            f"no disk of its own can be mounted here ({mounted.stderr.strip()}); tests/soak/test_storage_failures.py "
            "tries the same with a limit on the sizes of files, which needs no rights"
        )
    place.chmod(0o700)
    yield shutil.copytree(made, place, dirs_exist_ok=True)
    subprocess.run(["umount", "--lazy", place], check=True)


FULL = "Nothing can be written at the moment: the disk is full."


@pytest.mark.slow
def test_full_disk_is_reported_and_no_accepted_post_is_lost(
    disk: Path, start: Callable[[Path], CommandProcess]
) -> None:
    key = a_key(disk)
    where = ("--profile", profile_of(disk), "--platform", "bluesky", "--platform-account-id", "did:plc:alice")
    secret = json.dumps(TOKENS)
    command = [*ALONE, sys.executable, "-m", "socialpub", "account", "add", *where]
    subprocess.run(command, cwd=disk, env=command_environment(), input=secret, text=True, check=True)
    server = start(disk)
    with client(server, key) as api:
        accepted = [api.post("/v1/posts", json=a_post(f"before {number}")) for number in range(3)]
        assert {answer.status_code for answer in accepted} == {202}
        ballast = fill(disk)
        refused = until_refused(api)
        assert (refused.status_code, error_of(refused)["rule"]) == (503, "storage.unavailable")
        assert error_of(refused)["message"] == FULL
        assert int(refused.headers["Retry-After"]) > 0
        assert not_ready(api) == FULL
        assert upload(api) == (503, "There is no room for more media.")
        assert api.get("/v1/posts").status_code == 200
        told = ended(disk, *CREATE)
        assert (told.code, "full" in told.error["message"], "Traceback" in told.err) == (1, True, False)
        ballast.unlink()
        assert wait_for(lambda: is_ready(api), 60)
        accepted.append(api.post("/v1/posts", json=a_post("after")))
        wanted = {answer.json()["results"][0]["postId"] for answer in accepted}
        assert wanted <= {post["id"] for post in api.get("/v1/posts?limit=200").json()["data"]}
    assert server.stop() == 0
    assert "Traceback" not in server.popen.stderr.read()  # type: ignore[union-attr]


def profile_of(data: Path) -> str:
    return str(json.loads(ended(data, "profile", "list", "--json").out)[0]["id"])


def a_post(text: str) -> dict[str, object]:
    return {"text": text, "targets": [{"platform": "bluesky"}], "scheduledAt": format_instant(FAR_MS)}


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(b"x" * 512):
            continue
    return ballast


def until_refused(api: httpx.Client) -> httpx.Response:
    """The log of the database has some room left: the first post that has none."""
    for number in range(100):
        answer = api.post("/v1/posts", json=a_post(f"full {number} " + "x" * 200))
        if not answer.is_success:
            return answer
    raise AssertionError("the disk was never full")


def test_a_start_on_a_full_disk_says_so_and_works_once_there_is_room(
    disk: Path, start: Callable[[Path], CommandProcess]
) -> None:
    key = a_key(disk)
    shutil.rmtree(disk / "media", ignore_errors=True)
    ballast = fill(disk)
    told = ended(disk, *SERVE)
    assert (told.code, told.error["message"]) == (
        1,
        "socialpub.db cannot be used: the disk is full. Nothing was changed.",
    )
    assert "Traceback" not in told.err
    ballast.unlink()
    server = start(disk)
    with client(server, key) as api:
        assert is_ready(api)
    assert server.stop() == 0
