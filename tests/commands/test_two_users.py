"""Commands run by root leave the files of the service user usable."""

from __future__ import annotations

import functools
import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from socialpub.base.security import private_files
from socialpub.commands import command_table
from socialpub.simulator.server import SimulatorThread
from tests.support import earlier_databases, forked_commands
from tests.support.command_runner import (
    CommandResult,
    RunCommand,
    command_environment,
    read_address,
    run_command,
    running_commands,
)
from tests.support.command_samples import command_names
from tests.support.media_files import picture
from tests.support.system_needs import skip_without

SERVICE = 64321
AS_SERVICE = ("setpriv", f"--reuid={SERVICE}", f"--regid={SERVICE}", "--clear-groups")
as_service = functools.partial(forked_commands.start_fork, before=AS_SERVICE)
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act on the files of another user")

MEMORY = Path("/dev/shm")  # where a commit costs nothing
ELSEWHERE = {"config example", "demo", "simulator"}  # without this data folder
PASSWORD = "correct horse battery staple\n"
TOKENS = json.dumps({"accessToken": "made-up"})


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of root's that every user can pass through."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        place = Path(name)
        place.chmod(0o755)
        yield place


@pytest.fixture
def data(place: Path, folder: Path) -> Path:
    """The empty data folder of the service, which the settings of root's working directory name."""
    data = place / "data"
    data.mkdir(0o700)
    os.chown(data, SERVICE, SERVICE)
    settings(folder, data)
    return data


@pytest.fixture
def later(place: Path) -> Iterator[None]:
    """As elsewhere, with its migrations where the service's user can read them."""
    with earlier_databases.limited_migrations(earlier_databases.newest_version(), place):
        yield


def settings(folder: Path, data: Path, more: str = "") -> None:
    (folder / "socialpub.toml").write_text(
        f'[database]\nurl = "{data}/socialpub.db"\n[storage]\ndata_dir = "{data}"\n'
        f'[backup]\ndirectory = "{data}/backups"\n{more}'
    )


def strangers(data: Path) -> dict[str, str]:
    """The files that the service cannot use as its own, or that others can."""
    found = {}
    for path in (data, *data.rglob("*")):
        held = path.lstat()
        if (held.st_uid, held.st_gid) != (SERVICE, SERVICE) or stat.S_IMODE(held.st_mode) & private_files.OTHERS_MASK:
            found[str(path.relative_to(data))] = f"{held.st_uid}:{held.st_gid} {stat.S_IMODE(held.st_mode):o}"
    return found


@pytest.fixture(scope="module")
def interpreter() -> None:
    """One that the service's user may run; otherwise the test is skipped, with the reason."""
    skip_without(
        *AS_SERVICE, sys.executable, "-c", "import socialpub.commands.cli", cwd=Path("/"), env=command_environment()
    )


def is_served(data: Path) -> None:
    """The service starts as its user, answers, and stops."""
    where = ("--database", str(data / "socialpub.db"), "--data-dir", str(data))
    with running_commands(data, as_service) as start:
        server = start("serve", "--port", "0", *where)
        url = read_address(server)
        assert httpx.get(f"{url}/readyz", trust_env=False).status_code == 200
        assert server.stop() == 0


def empty(data: Path) -> None:
    for path in data.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


# --- Every command -------------------------------------------------------------------------------------------------


class Root:
    """Runs commands as root, and remembers which."""

    def __init__(self, run: RunCommand, data: Path) -> None:
        self._run, self._data, self.names = run, data, set[str]()

    def __call__(self, name: str, *arguments: str, stdin: str = "", code: int = 0) -> Any:
        ended: CommandResult = self._run(*name.split(), *arguments, "--json", stdin=stdin)
        assert ended.code == code, f"{name}: {ended.err}"
        assert strangers(self._data) == {}, name
        self.names.add(name)
        return ended.json if ended.out else None


@pytest.fixture
def root(run: RunCommand, data: Path) -> Root:
    return Root(run, data)


def administer(root: Root, folder: Path) -> str:
    """Every command of administration; the id of an account that is connected afterwards."""
    root("org create", "Acme")
    root("org rename", "Acme", "Acme")
    root("org list")
    root("org show", "Acme")
    root("org set-tier", "Acme", "enterprise")
    root("profile create", "Second")
    root("profile list")
    root("profile show", "Second")
    root("key create", "--name", "a key")
    root("key list")
    root("key show", "a key")
    root("key revoke", "a key")
    root("user create", "--email", "a@example.com", "--role", "owner", stdin=PASSWORD)
    root("user list")
    root("user show", "a@example.com")
    root("user set-password", "--email", "a@example.com", stdin=PASSWORD)
    root("user reset-totp", "--email", "a@example.com")
    named = ("--profile", "Second", "--platform", "threads", "--platform-account-id")
    gone = root("account add", *named, "7", stdin=TOKENS)["id"]
    account = str(root("account add", *named, "8", stdin=TOKENS)["id"])
    root("account list")
    root("account show", account)
    root("account disconnect", gone, "--yes")
    root("org create", "Left")
    root("org delete", "Left", "--yes")
    return account


@pytest.mark.slow
@pytest.mark.usefixtures("interpreter")
def test_no_command_of_root_takes_the_data_from_the_service(
    root: Root, data: Path, folder: Path, place: Path, simulator: SimulatorThread
) -> None:
    settings(folder, data, (folder / "socialpub.toml").read_text())
    account = administer(root, folder)
    made = simulator.lab.add_account("bluesky", handle="alice.test")
    root("account connect bluesky", "--profile", "Second", "--handle", "alice.test", stdin=f"{made['appPassword']}\n")
    video = {"kind": "video", "url": f"{simulator.url}/pages/clip.mp4"}
    post = {"account": account, "text": "a", "scheduledAt": "2035-01-02T03:04:05Z", "media": [video]}
    (folder / "posts.ndjson").write_text(json.dumps(post) + "\n")
    assert root("import", "posts.ndjson")["imported"] == 1
    for beside in (data, place):
        root("export", str(beside / "posts.csv"))
        root("export", str(beside / "posts.ndjson"))
    root("migrate")
    root("status", code=1)  # no server runs
    root("doctor", "--offline", code=1)
    root("resume")
    for to in (data / "backup.zip", place / "backup.zip"):
        root("backup", str(to))
        root("verify", str(to))
    assert (place / "backup.zip").stat().st_uid == 0  # in root's folder
    root("backups")
    root("keys rotate")
    assert list(data.glob("master.key.*"))
    (data / "master.key").unlink()
    root("keys forget", "--yes")
    is_served(data)
    root("move")
    root("move", "--back")
    is_served(data)
    root("backup", str(place / "last.zip"))
    os.rename(data / "master.key", place / "master.key")
    empty(data)
    root("restore", str(place / "last.zip"))
    os.rename(place / "master.key", data / "master.key")
    is_served(data)
    missing = {name for name, _ in command_names(command_table.build_root())} - root.names - ELSEWHERE - {"serve"}
    assert missing == set()


@pytest.mark.slow
@pytest.mark.usefixtures("interpreter", "later")
def test_a_database_that_root_migrates_stays_the_services(data: Path, run: RunCommand) -> None:
    os.chown(
        earlier_databases.make_database(data / "socialpub.db", earlier_databases.newest_version() - 1, data.parent),
        SERVICE,
        SERVICE,
    )
    earlier_databases.write_key_file(data)
    (data / "media").mkdir(0o700)
    for name in ("master.key", "media"):
        os.chown(data / name, SERVICE, SERVICE)
    assert run("migrate", "--json").code == 0
    assert [path.name for path in data.glob("*-before-*")]
    assert strangers(data) == {}
    is_served(data)


@pytest.mark.usefixtures("interpreter")
def test_commands_of_root_beside_the_running_service_leave_it_running(data: Path, run: RunCommand) -> None:
    where = ("--database", str(data / "socialpub.db"), "--data-dir", str(data))
    with running_commands(data, as_service) as start:
        server = start("serve", "--port", "0", *where)
        url = read_address(server)
        assert run("org", "create", "Acme").code == 0
        key = run("key", "create", "--json").json["key"]
        for command in (("keys", "rotate"), ("backup", str(data / "a.zip")), ("migrate",)):
            assert run(*command).code == 0
        assert strangers(data) == {}
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, trust_env=False) as client:
            made = client.post("/v1/notification-channels", json={"to": {"kind": "ntfy", "topic": "a-long-topic-name"}})
            assert made.status_code == 201, made.text  # sealed with the new key
        assert server.stop() == 0
    is_served(data)


@pytest.mark.slow
@pytest.mark.usefixtures("interpreter")
def test_server_once_started_by_root_leaves_the_data_to_the_service(
    data: Path, place: Path, folder: Path, run: RunCommand
) -> None:
    assert run("org", "create", "Acme").code == 0
    key = run("key", "create", "--json").json["key"]
    with running_commands(folder) as start:
        server = start("serve", "--port", "0")
        with httpx.Client(base_url=read_address(server), trust_env=False) as client:
            file, headers = ("a.png", picture("PNG", (8, 8)), "image/png"), {"Authorization": f"Bearer {key}"}
            assert client.post("/v1/media", files={"file": file}, headers=headers).status_code == 201
        assert server.stop() == 0
    assert strangers(data) == {}
    is_served(data)
    assert run("backup", str(place / "a.zip"), "--with-keys").code == 0
    empty(data)
    assert run("restore", str(place / "a.zip")).code == 0
    assert len(list(data.glob("media/??/*"))) == 1
    assert strangers(data) == {}
    is_served(data)


@pytest.mark.usefixtures("interpreter")
def test_what_root_has_copied_there_is_said_with_the_remedy(data: Path, run: RunCommand) -> None:
    assert run("org", "create", "Acme").code == 0
    serve = ("serve", "--port", "0", "--database", str(data / "socialpub.db"), "--data-dir", str(data))
    for name in ("master.key", "socialpub.db"):
        os.chown(data / name, 0, 0)
        ended = run_command(*serve, cwd=data, begin=as_service)
        assert ended.code == 1
        assert f"as root: chown --reference={data} {data / name}" in ended.err.splitlines()[-1]
        os.chown(data / name, SERVICE, SERVICE)
    is_served(data)


# --- Links of the service ------------------------------------------------------------------------------------------

Plant = Callable[[Path, Path], object]
LINKS: dict[str, tuple[str, tuple[str, ...]]] = {  # a name in the data folder, and the command that would write there
    "lock of writes": ("socialpub.db.write", ("org", "create", "Another")),
    "lock of servers": ("socialpub.db.lock", ("move",)),
    "folder": ("folder", ("backup", "{data}/folder/a.zip")),
    "key file": ("master.key", ("keys", "rotate")),
    "copy of an upgrade": (".socialpub-before-{next}.db.part", ("migrate",)),
}


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("what", LINKS)
def test_root_writes_through_no_link_of_the_service(what: str, data: Path, place: Path, run: RunCommand) -> None:
    name, command = LINKS[what]
    if command == ("migrate",):
        os.chown(
            earlier_databases.make_database(data / "socialpub.db", earlier_databases.newest_version() - 1, data.parent),
            SERVICE,
            SERVICE,
        )
        earlier_databases.write_key_file(data)
    else:
        assert run("org", "create", "Acme").code == 0
    victim = place / "victim"
    if what == "folder":
        victim.mkdir()
    else:
        victim.write_text("root's own")
    victim.chmod(0o755)
    link = data / name.format(next=earlier_databases.migration_name(earlier_databases.newest_version()))
    link.unlink(missing_ok=True)
    link.symlink_to(victim)
    os.lchown(link, SERVICE, SERVICE)
    ended = run(*(word.format(data=data) for word in command), "--json")
    assert "Traceback" not in ended.err
    held = victim.stat()
    assert (held.st_uid, stat.S_IMODE(held.st_mode)) == (0, 0o755)
    assert [*victim.iterdir()] == [] if what == "folder" else victim.read_text() == "root's own"


def test_root_follows_its_own_links(place: Path, data: Path) -> None:
    (place / "link").symlink_to(data)
    os.close(private_files.create(place / "link" / "new"))
    assert (data / "new").stat().st_uid == SERVICE


@pytest.mark.parametrize("target", ["{place}/other", "../other", "../data/../other"])
def test_root_walks_through_no_link_of_another_user(place: Path, data: Path, target: str) -> None:
    (place / "other" / "below").mkdir(parents=True)
    (data / "link").symlink_to(target.format(place=place))
    os.lchown(data / "link", SERVICE, SERVICE)
    for way in (data / "link" / "new", data / "link" / "below" / "new"):
        for create in (
            private_files.create,
            private_files.open_or_create,
            private_files.make_folder,
            private_files.replace,
        ):
            with pytest.raises(OSError, match="root does not follow a link of another user"):
                create(way)
    assert [path.name for path in (place / "other").rglob("*")] == ["below"]
    os.lchown(data / "link", 0, 0)
    private_files.make_folder(data / "link" / "below" / "new" / "newer")
    assert (place / "other" / "below" / "new" / "newer").is_dir()


def test_links_in_a_circle_end(place: Path) -> None:
    (place / "a").symlink_to(place / "b")
    (place / "b").symlink_to(place / "a")
    with pytest.raises(OSError, match="link"):
        private_files.create(place / "a" / "new")
