"""Binary of `make binary`: size, contents, commands, and a run without Python."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from socialpub import __version__
from tests.support.app_server import AppServer
from tests.support.ports import free_port
from tests.support.release_files import DEBIAN

ROOT = Path(__file__).parents[2]
SIZE_MAX = 60_000_000
pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="the binary is built for Linux")]


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """Where it unpacks itself."""
    made = tmp_path / "unpacked"
    made.mkdir()
    return made


def execute(command: list[str | Path], cwd: Path, unpacked: Path) -> str:
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin", "HOME": str(cwd), "TMPDIR": str(unpacked)}
    ended = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_it_is_small_and_tells_its_version(binary: Path, tmp_path: Path, unpacked: Path) -> None:
    assert binary.stat().st_size <= SIZE_MAX
    assert execute([binary, "--version"], tmp_path, unpacked) == f"{__version__}\n"
    assert list(unpacked.iterdir()) == []


def test_every_setting_and_migration_is_inside(binary: Path, tmp_path: Path, unpacked: Path) -> None:
    assert execute([binary, "config", "example"], tmp_path, unpacked) == (ROOT / "socialpub.toml.example").read_text()
    names = sorted(path.stem for path in (ROOT / "migrations").glob("*.py"))
    answer = json.loads(execute([binary, "migrate", "--json"], tmp_path, unpacked))
    assert answer == {"from": None, "to": names[-1], "applied": names}


def test_its_reference_has_every_word(binary: Path, tmp_path: Path, unpacked: Path, server: AppServer) -> None:
    apart = tmp_path / "apart"
    apart.mkdir()
    with serving(binary, apart, unpacked) as (_, url):
        there = httpx.get(f"{url}/openapi.json").json()["components"]
    assert there == server.api().get("/openapi.json").json()["components"]


def test_its_commands_work_together(binary: Path, tmp_path: Path, unpacked: Path) -> None:
    def json_of(*words: str) -> dict[str, str]:
        return dict(json.loads(execute([binary, *words, "--json"], tmp_path, unpacked)))

    organization = json_of("org", "create", "Mine")["id"]
    assert json_of("key", "create", "--org", organization)["key"]
    assert organization in execute([binary, "org", "list"], tmp_path, unpacked)


def test_killed_binary_leaves_no_process_and_its_folder_is_removed(
    binary: Path, tmp_path: Path, unpacked: Path
) -> None:
    with serving(binary, tmp_path, unpacked) as (started, _):
        (child,) = children_of(started.pid)
        os.kill(started.pid, signal.SIGKILL)
        started.wait(10)
        assert ends(child)
        assert len(list(unpacked.iterdir())) == 1
    execute([binary, "--version"], tmp_path, unpacked)
    assert list(unpacked.iterdir()) == []


def test_a_start_removes_nothing_of_one_that_runs(binary: Path, tmp_path: Path, unpacked: Path) -> None:
    with serving(binary, tmp_path, unpacked) as (started, url):
        execute([binary, "--version"], tmp_path, unpacked)
        assert httpx.get(f"{url}/docs").status_code == 200
        started.terminate()
        assert started.wait(30) == 0
    assert list(unpacked.iterdir()) == []


def test_it_publishes_in_an_empty_debian_without_python(binary: Path, tmp_path: Path) -> None:
    if os.getuid() != 0 or shutil.which("debootstrap") is None:
        pytest.skip("making an empty Debian needs root and debootstrap")
    debian = tmp_path / "debian"
    subprocess.run(
        ["debootstrap", "--variant=minbase", "bookworm", debian, DEBIAN], check=True, timeout=300, capture_output=True
    )
    try:
        assert not list(debian.glob("usr/bin/python*"))
        shutil.copy(binary, debian / "usr" / "local" / "bin")
        demo = ["socialpub", "demo", "--once", "--port", "0", "--json"]
        batch = json.loads(execute(["chroot", debian, *demo], tmp_path, Path("/tmp")))
        assert {result["status"] for result in batch["results"]} == {"published"}
        assert len(batch["results"]) == 8
        assert list(debian.glob("tmp/*")) == []
    finally:
        shutil.rmtree(debian, ignore_errors=True)


# --- Running -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def serving(binary: Path, cwd: Path, unpacked: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A server of its own, once its port is open."""
    port = free_port()
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin", "HOME": str(cwd), "TMPDIR": str(unpacked)}
    command = [binary, "serve", "--port", str(port)]
    with subprocess.Popen(command, cwd=cwd, env=environment, stderr=subprocess.DEVNULL) as started:
        try:
            _wait_for(f"http://127.0.0.1:{port}/healthz", started)
            yield started, f"http://127.0.0.1:{port}"
        finally:
            started.kill()


def _wait_for(url: str, started: subprocess.Popen[bytes]) -> None:
    while started.poll() is None:
        with contextlib.suppress(httpx.TransportError):
            httpx.get(url)
            return
        time.sleep(0.02)
    pytest.fail(f"it ended with {started.returncode}")


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def ends(pid: int) -> bool:
    """Whether a process is gone within ten seconds."""
    for _ in range(500):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().split(") ")[-1][0] != "Z":
                time.sleep(0.02)
                continue
        return True
    return False
