"""`doctor` reports each fault in settings, database and platforms, and changes nothing."""

from __future__ import annotations

import socket
import socketserver
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from socialpub.base.config import Settings
from socialpub.base.runtime import load_vault
from socialpub.commands import doctor
from socialpub.domain.context.platform_sites import encrypt_secret
from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from socialpub.simulator.server import SimulatorThread
from tests.support import earlier_databases
from tests.support.command_runner import RunCommand
from tests.support.ports import free_port

Ask = Callable[..., Any]


@pytest.fixture
def look(run: RunCommand) -> Callable[..., dict[str, dict[str, Any]]]:
    """The checks by their names; the exit code says whether all is well."""

    def look_once(*arguments: str) -> dict[str, dict[str, Any]]:
        ended = run("doctor", "--json", *arguments)
        assert ended.code == (0 if ended.json["ok"] else 1)
        assert ended.json["ok"] == all(check["ok"] for check in ended.json["checks"])
        assert all(check["remediation"] for check in ended.json["checks"] if not check["ok"])
        return {check["name"]: check for check in ended.json["checks"]}

    return look_once


def test_before_the_first_start_all_is_well_and_nothing_is_made(look: Any, folder: Path) -> None:
    found = look("--offline")
    assert found["database"]["message"].endswith("does not exist yet; the first start creates it")
    assert list(folder.iterdir()) == []


def test_a_database_is_looked_at_and_left_as_it_is(look: Any, ask: Ask, folder: Path) -> None:
    ask("org", "create", "Acme")
    before = (folder / "socialpub.db").read_bytes()
    found = look("--offline")
    assert {name for name, check in found.items() if not check["ok"]} == {"server"}  # none runs
    looked = "settings database schema master_key data_folder server publishing posts accounts disk"
    assert set(found) == {name.replace("_", " ") for name in looked.split()}
    assert (folder / "socialpub.db").read_bytes() == before


@pytest.mark.usefixtures("later")
def test_an_older_schema_is_told_and_not_migrated(look: Any, folder: Path) -> None:
    earlier_databases.make_database(
        folder / "socialpub.db", earlier_databases.newest_version() - 1, folder / "versions"
    )
    for _ in range(2):
        assert look("--offline")["schema"]["message"] == "the next start runs 1 migration"


def _newer(folder: Path) -> None:
    with sqlite3.connect(folder / "socialpub.db") as database:
        database.execute("UPDATE schema_migration SET name = '9999_later'")


def _damaged(folder: Path) -> None:
    path = folder / "socialpub.db"
    path.write_bytes(path.read_bytes()[:5000])


def _paused(folder: Path) -> None:
    with sqlite3.connect(folder / "socialpub.db") as database:
        database.execute(
            "INSERT INTO instance (id, uid, paused, epoch, beat, mark, seen_at) VALUES (1, '', 'restored', 1, 1, '', 0)"
        )


def _no_media(folder: Path) -> None:
    (folder / "media").write_text("a file")


@pytest.mark.parametrize(
    ("hurt", "name", "said"),
    [
        (_newer, "database", "was written by a newer socialpub"),
        (_damaged, "database", "is damaged"),
        (_paused, "publishing", "Publishing is paused (restored). Run socialpub resume --after-restore to list"),
        (_no_media, "data folder", "the media folder is not a folder"),
    ],
)
def test_what_is_wrong_is_named(
    look: Any, ask: Ask, folder: Path, hurt: Callable[[Path], None], name: str, said: str
) -> None:
    ask("org", "create", "Acme")
    hurt(folder)
    found = look("--offline")
    assert (found[name]["ok"], said in found[name]["message"]) == (False, True), found[name]


def test_wrong_settings_are_the_first_thing_told(look: Any, folder: Path) -> None:
    (folder / "socialpub.toml").write_text("[server]\nprot = 1\n")
    assert look()["settings"]["message"] == "server.prot: there is no such setting; did you mean server.port?"


# --- Outside -------------------------------------------------------------------------------------------------------


@pytest.fixture
def site(simulator: SimulatorThread, folder: Path) -> Path:
    """The settings file, whose platforms are the simulator's; the server's port is one where nobody listens."""
    with (folder / "socialpub.toml").open("a") as file:
        file.write("[server]\nport = 9\n")
    return folder / "socialpub.toml"


def test_a_platform_that_answers_is_told_with_the_clock_beside_it(look: Any, site: Path) -> None:
    found = look()
    assert found["bluesky"]["ok"]
    assert "server address" not in found  # none runs
    assert found["public address"]["message"].startswith("server.base_url is not set")


def test_an_app_without_its_secret_is_told(look: Any, site: Path) -> None:
    with site.open("a") as file:
        file.write('[platforms.facebook]\nclient_id = "x"\n')
    assert look()["facebook"]["message"] == "client_id is set without client_secret"


@pytest.mark.parametrize(("secret", "ok"), [(CLIENT_SECRET, True), ("not-the-secret", False)])
def test_an_app_is_asked_about_where_the_platform_says(
    look: Any, site: Path, simulator: SimulatorThread, secret: str, ok: bool
) -> None:
    with site.open("a") as file:
        file.write(f'[platforms.threads]\nclient_id = "{CLIENT_ID}"\nclient_secret = "{secret}"\n')
        file.write(f'api_base = "{simulator.origin("threads")}"\n')
    site.chmod(0o600)
    found = look()["threads app"]
    assert (found["ok"], "accepts the app" in found["message"]) == (ok, ok)
    assert secret not in str(found)


def test_an_app_that_was_typed_in_is_the_one_that_is_asked_about(
    look: Any, ask: Ask, site: Path, simulator: SimulatorThread, folder: Path
) -> None:
    ask("org", "create", "Acme")
    with site.open("a") as file:
        file.write(f'[platforms.threads]\napi_base = "{simulator.origin("threads")}"\n')
    assert "threads" not in look()
    vault = load_vault(Settings(database={"url": str(folder / "socialpub.db")}))
    with sqlite3.connect(folder / "socialpub.db") as database:
        row = ("threads", CLIENT_ID, encrypt_secret(vault, "threads", CLIENT_SECRET), 1, 1)
        database.execute(
            "INSERT INTO platform_app (id, client_id, secret, created_at, updated_at) VALUES (?,?,?,?,?)", row
        )
    assert look()["threads app"]["message"] == "Threads accepts the app"
    (folder / "master.key").unlink()
    without = look()
    assert (without["master key"]["ok"], "threads app" in without) == (False, False)
    assert not (folder / "master.key").exists()


def test_a_server_on_an_ipv6_address_is_found(look: Any, start: Any, site: Path) -> None:
    port = free_port()
    site.write_text(site.read_text().replace("port = 9\n", f'port = {port}\nhost = "::1"\n'))
    start("serve").until("started")
    assert look()["server address"]["message"] == f"it answers 200 at http://[::1]:{port}/readyz"


def test_another_program_at_the_address_of_the_server_is_told(look: Any, start: Any, site: Path) -> None:
    """Its answer may have any form."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Stranger) as stranger:
        threading.Thread(target=stranger.serve_forever).start()
        start("serve", "--port", "0").until("started")
        site.write_text(site.read_text().replace("port = 9\n", f"port = {stranger.server_address[1]}\n"))
        try:
            found = look()["server address"]
        finally:
            stranger.shutdown()
    assert (found["ok"], "it answers 404" in found["message"]) == (False, True)


class _Stranger(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while self.rfile.readline() not in (b"\r\n", b""):
            pass
        self.wfile.write(b'HTTP/1.1 404 Not Found\r\nContent-Length: 17\r\nConnection: close\r\n\r\n{"error":"other"}')


def test_a_public_address_that_is_somebody_elses_is_told(look: Any, site: Path, simulator: SimulatorThread) -> None:
    text = site.read_text().replace("port = 9\n", f'port = 9\nbase_url = "{simulator.origin("bluesky")}"\n')
    site.write_text(text)
    found = look()["public address"]
    assert (found["ok"], found["message"].endswith("but is not socialpub")) == (False, True)


class Relay(socketserver.ThreadingTCPServer):
    """A proxy on this machine that passes every byte on and adds no header but `added`."""

    allow_reuse_address = daemon_threads = True
    inside: int
    added = b""


class _Relayed(socketserver.StreamRequestHandler):
    server: Relay

    def handle(self) -> None:
        lines = [line for line in iter(self.rfile.readline, b"\r\n") if not line.lower().startswith(b"connection:")]
        with socket.create_connection(("127.0.0.1", self.server.inside)) as inside:
            inside.sendall(b"".join([*lines, self.server.added, b"Connection: close\r\n\r\n"]))
            while part := inside.recv(65536):
                self.wfile.write(part)


@pytest.mark.parametrize(("added", "ok"), [(b"", False), (b"X-Forwarded-For: 203.0.113.7\r\n", True)])
def test_a_proxy_that_names_no_client_is_told(look: Any, start: Any, site: Path, added: bytes, ok: bool) -> None:
    """Its public address is a spelling of loopback that no server takes for its own name."""
    inside = free_port()
    with Relay(("127.0.0.1", 0), _Relayed) as proxy:
        proxy.inside, proxy.added = inside, added
        threading.Thread(target=proxy.serve_forever).start()
        public = f"http://127.1:{proxy.server_address[1]}"
        site.write_text(site.read_text().replace("port = 9\n", f'port = {inside}\nbase_url = "{public}"\n'))
        start("serve").until("started")
        try:
            found = look()
        finally:
            proxy.shutdown()
    assert found["public address"]["message"] == f"{public} is this server"
    assert (found["proxy"]["ok"], "X-Forwarded-For" in found["proxy"]["message"]) == (ok, not ok)


@pytest.mark.parametrize(("date", "ok"), [("Wed, 21 Oct 2015 07:28:00 GMT", False), ("not a date", None), (None, None)])
def test_a_clock_that_is_wrong_is_told(date: str | None, ok: bool | None) -> None:
    headers = {} if date is None else {"date": date}
    told = list(doctor._clock("bluesky", doctor.outbound.UpstreamResponse(200, headers, b"")))
    assert [check.ok for check in told] == ([] if ok is None else [ok])
