"""Memory and time that large or hostile media files cost the server."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import httpx
import pytest

from socialpub.base.config import Settings
from socialpub.base.runtime import Runtime, load_vault
from socialpub.base.system import sockets
from socialpub.commands.serve import run_engine_and_web
from socialpub.domain.access.actor import build_operator
from socialpub.domain.background.engine import BackgroundEngine
from socialpub.domain.context.app_context import open_context
from socialpub.domain.identity import api_keys
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas.api_keys import KeyRequest
from socialpub.domain.schemas.profiles import OrganizationRequest
from socialpub.store import database
from socialpub.store.schema import migration
from socialpub.web.app import build_app
from socialpub.web.server import run_until_signal, serve_app
from tests.support.hostile_media import BOMBS, FILES
from tests.support.media_files import mp4
from tests.support.reporting import TIMED

pytestmark = [pytest.mark.slow, pytest.mark.alone]
MIB = 1024 * 1024


def run(home: str, told: Any) -> None:
    """A server in a process of its own, which tells its address, a key and its process id."""
    sock = sockets.listen("127.0.0.1", 0)
    settings = Settings(
        server={"port": sock.getsockname()[1]},  # type: ignore[arg-type]
        database={"url": f"{home}/socialpub.db"},  # type: ignore[arg-type]
        limits={"media": 100_000},  # type: ignore[arg-type]
    )
    migration.migrate(settings.database_path)
    service = open_context(Runtime(settings, load_vault(settings)))

    def key(tx: database.Tx) -> str:
        who = build_operator(service, "test")
        organization = profiles.create_organization(tx, who, OrganizationRequest(name="Load"))["id"]
        return str(api_keys.create(tx, who.within(organization), KeyRequest(name="k")).body["key"])

    minted = service.write(key).result()
    engine = BackgroundEngine(service)
    life = run_engine_and_web(engine, serve_app(build_app(service, engine), sock))
    run_until_signal(life, lambda: told.put((settings.base_url, minted, os.getpid())))


@contextlib.contextmanager
def server(home: Path) -> Iterator[tuple[httpx.Client, int]]:
    """A client of a fresh server, and the server's process id."""
    context = get_context("spawn")
    told = context.Queue()
    process = context.Process(target=run, args=(str(home), told))
    process.start()
    try:
        url, key, number = told.get(timeout=60)
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=300) as client:
            yield client, number
    finally:
        process.terminate()
        process.join(30)


def resident(number: int, name: str = "VmRSS") -> int:
    """Resident memory of a process in bytes; `VmHWM`: the most it ever was."""
    status = Path(f"/proc/{number}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(f"{name}:"))


def computed(number: int) -> float:
    """Seconds of the processor that a process has had: on a busy machine an answer takes longer, and no more of it."""
    user, system = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def upload(client: httpx.Client, data: bytes) -> httpx.Response:
    return client.post("/v1/media", files={"file": ("a", data)})


def test_an_upload_of_500_mb_adds_less_than_30_mb_of_resident_memory(tmp_path: Path) -> None:
    head = mp4()
    size = 500 * MIB
    free = (size - len(head)).to_bytes(4, "big") + b"free"

    def body() -> Iterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.mp4"\r\n\r\n' + head + free
        left = size - len(head) - 8
        piece = os.urandom(MIB)
        while left:
            yield piece[: min(MIB, left)]
            left -= min(MIB, left)
        yield b"\r\n--b--\r\n"

    with server(tmp_path) as (client, number):
        upload(client, mp4())  # whatever a first upload loads
        before = resident(number)
        began = time.monotonic()
        response = client.post("/v1/media", content=body(), headers={"Content-Type": "multipart/form-data; boundary=b"})
        took, added = time.monotonic() - began, resident(number, "VmHWM") - before
        assert response.status_code == 201, response.text
        assert response.json()["sizeBytes"] == size
        print(f"500 MB in {took:.1f} s, {added / MIB:.1f} MB more of resident memory at most")
        assert added < 30 * MIB
        before = resident(number)
        with client.stream("GET", response.json()["url"]) as answer:
            assert sum(len(piece) for piece in answer.iter_bytes()) == size
        assert resident(number, "VmHWM") - before < 30 * MIB


def test_hostile_files_cost_neither_time_nor_memory(tmp_path: Path) -> None:
    corpus = {name: (make(), rule) for name, (make, rule) in (FILES | BOMBS).items()}
    dearest = slowest = (0.0, "")
    with server(tmp_path) as (client, number):
        for name, (data, rule) in corpus.items():
            used, began = computed(number), time.monotonic()
            response = upload(client, data)
            dearest = max(dearest, (computed(number) - used, name))
            slowest = max(slowest, (time.monotonic() - began, name))
            assert (response.status_code, response.json()["error"]["rule"]) == (400, rule), name
        peak = resident(number, "VmHWM")
        assert client.get("/v1/media").json()["data"] == []
    print(
        f"{len(corpus)} files: the slowest, {slowest[1]}, {slowest[0]:.2f} s; the dearest, {dearest[1]}, "
        f"{dearest[0]:.2f} s of the processor; peak {peak / MIB:.0f} MB"
    )
    assert dearest[0] < 3
    assert slowest[0] < 3 or not TIMED
    assert peak < 300 * MIB
    assert [path for path in (tmp_path / "media").rglob("*") if path.is_file()] == []
