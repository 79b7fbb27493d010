"""Load by wrk, with scripts that are written for each run into its folder."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.machine import BenchError, Process

CONNECTIONS = 16
TIMEOUT_SECONDS = 60
_numbers = itertools.count(1)

_DONE = """
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '\\nRESULT {"requests":%d,"seconds":%f,"failed":%d,"refused":%d,"p50":%f,"p99":%f,"worst":%f}\\n',
    summary.requests, summary.duration / 1e6, e.connect + e.read + e.write + e.timeout, e.status,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, latency.max / 1e3))
end
"""


@dataclass(frozen=True)
class Script:
    """What each connection sends; `lua` defines `request`, which is called for each."""

    lua: str


@dataclass(frozen=True)
class Loaded:
    """What a load came to; milliseconds. `cpu_ms` and `switches` are those of the server, for each request."""

    requests: int
    seconds: float
    p50: float
    p99: float
    worst: float
    cpu_ms: float
    switches: float

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


def need_wrk() -> None:
    """BenchError where there is none."""
    if shutil.which("wrk") is None:
        raise BenchError("The load comes from wrk, which is not installed: apt install wrk")


def get(paths: Sequence[str], key: str = "") -> Script:
    """These paths by turns."""
    told = "".join(f"[{number}]={json.dumps(path)}," for number, path in enumerate(paths, 1))
    return Script(
        f"local paths, n = {{{told}}}, 0\nlocal headers = {_headers(key)}\n"
        "request = function() n = n % #paths + 1; return wrk.format('GET', paths[n], headers) end\n"
    )


def post(path: str, key: str, accounts: Sequence[str], *, targets: int = 1, at: str = "") -> Script:
    """Posts of about 130 characters, each text once, with so many targets; `at`: when they are due."""
    told = "".join(f"[{number}]={json.dumps(account)}," for number, account in enumerate(accounts, 1))
    due = f',"scheduledAt":"{at}"' if at else ""
    filler = "what a hundred and thirty characters are: a sentence, a second one, and an address at the end of it"
    return Script(
        f"local accounts, n = {{{told}}}, 0\nlocal headers = {_headers(key)}\n"
        f"local run = '{next(_numbers)}'\n"
        "request = function()\n"
        "  n = n + 1\n"
        "  local targets = {}\n"
        f"  for place = 1, {targets} do\n"
        "    targets[place] = '{\"accountId\":\"' .. accounts[(n + place) % #accounts + 1] .. '\"}'\n"
        "  end\n"
        f"  local body = '{{\"text\":\"Bench ' .. run .. '-' .. n .. ': {filler}\"{due},\"targets\":['\n"
        "    .. table.concat(targets, ',') .. ']}'\n"
        f"  return wrk.format('POST', '{path}', headers, body)\n"
        "end\n"
    )


def record(token: str, repo: str) -> Script:
    """Bluesky's own call for a post."""
    return Script(
        f"local n = 0\nlocal headers = {_headers(token)}\n"
        "request = function()\n"
        "  n = n + 1\n"
        f'  local body = \'{{"repo":"{repo}","collection":"app.bsky.feed.post","record":{{"text":"\' .. n ..\n'
        '    \'","createdAt":"2026-01-01T00:00:00.000Z","$type":"app.bsky.feed.post"}}\'\n'
        "  return wrk.format('POST', '/xrpc/com.atproto.repo.createRecord', headers, body)\n"
        "end\n"
    )


def _headers(key: str) -> str:
    sent = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    return "{" + ",".join(f"[{json.dumps(name)}]={json.dumps(value)}" for name, value in sent.items()) + "}"


def run(
    script: Script, url: str, server: Process, folder: Path, seconds: int, *, connections: int = CONNECTIONS
) -> Loaded:
    """Load a server for so many seconds; BenchError where a request failed or was refused."""
    file = folder / "load.lua"
    file.write_text(script.lua + _DONE)
    before = server.usage()
    done = subprocess.run(
        ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", f"--timeout={TIMEOUT_SECONDS}s", "-s", str(file), url],
        capture_output=True,
        text=True,
        check=False,
    )
    used = server.usage() - before
    _, found, told = done.stdout.rpartition("\nRESULT ")
    if done.returncode or not found:
        raise BenchError(f"wrk failed: {done.stdout[-500:]} {done.stderr[-500:]}")
    said = json.loads(told)
    if said["failed"] or said["refused"] or not said["requests"]:
        raise BenchError(f"Of {said['requests']} requests {said['failed']} failed and {said['refused']} were refused.")
    count = int(said["requests"])
    return Loaded(
        count,
        said["seconds"],
        said["p50"],
        said["p99"],
        said["worst"],
        used.cpu_ms / count,
        used.switches / count,
    )
