"""Load by wrk, with scripts that are written for each run into its folder."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import BenchError, BenchmarkProcess

CONNECTIONS = 16
TIMEOUT_SECONDS = 60
LONGER = 5
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
class LoadScript:
    """What each connection sends; `lua` defines `request`, which is called for each. `run` is the load's own number."""

    lua: str


@dataclass(frozen=True)
class LoadResult:
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


def get(paths: Sequence[str], key: str = "") -> LoadScript:
    """These paths by turns."""
    told = "".join(f"[{number}]={json.dumps(path)}," for number, path in enumerate(paths, 1))
    return LoadScript(
        f"local paths, n = {{{told}}}, 0\nlocal headers = {headers(key)}\n"
        "request = function() n = n % #paths + 1; return wrk.format('GET', paths[n], headers) end\n"
    )


def post(path: str, key: str, accounts: Sequence[str], *, targets: int = 1, at: str = "") -> LoadScript:
    """Posts of about 130 characters, each text once, with so many targets; `at`: when they are due.

    Once in all loads together: X refuses a text that the account has had, and a refusal is not what is measured.
    """
    told = "".join(f"[{number}]={json.dumps(account)}," for number, account in enumerate(accounts, 1))
    due = f',"scheduledAt":"{at}"' if at else ""
    filler = "what a hundred and thirty characters are: a sentence, a second one, and an address at the end of it"
    return LoadScript(
        f"local accounts, n = {{{told}}}, 0\nlocal headers = {headers(key)}\n"
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


def headers(key: str) -> str:
    sent = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    return "{" + ",".join(f"[{json.dumps(name)}]={json.dumps(value)}" for name, value in sent.items()) + "}"


def run(
    script: LoadScript,
    url: str,
    server: BenchmarkProcess,
    folder: Path,
    seconds: int,
    *,
    connections: int = CONNECTIONS,
) -> LoadResult:
    """Load a server for so many seconds, or longer where it has answered nothing by then.

    BenchError where a request failed or was refused, or none was answered.
    """
    before, command = server.usage(), _command(script, url, folder, seconds, connections)
    said = _told(command)
    if not said["requests"]:
        before, command = server.usage(), _command(script, url, folder, LONGER * seconds, connections)
        said = _told(command)
    if not (count := int(said["requests"])):
        raise BenchError(f"No request was answered in {LONGER * seconds} s.")
    used = server.usage() - before
    times = said["seconds"], said["p50"], said["p99"], said["worst"]
    return LoadResult(count, *times, used.cpu_ms / count, used.switches / count)


def _told(command: list[str]) -> dict[str, float]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return _checked(done.returncode, done.stdout, done.stderr)


@contextlib.contextmanager
def beside(
    script: LoadScript, url: str, folder: Path, seconds: int, *, connections: int = CONNECTIONS
) -> Iterator[None]:
    """The load, while the block runs or for so many seconds; BenchError as in `run`, where it lasted as long."""
    command = _command(script, url, folder, seconds, connections)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield
        ended = process.poll()
    finally:
        process.terminate()
        said = process.communicate()
    if ended is not None:
        _checked(ended, *said)


def _command(script: LoadScript, url: str, folder: Path, seconds: int, connections: int) -> list[str]:
    file = written(script, folder)
    given = [f"-c{connections}", f"-d{seconds}s", f"--timeout={TIMEOUT_SECONDS}s", "-s", str(file)]
    return ["wrk", "-t1", *given, url]


def written(script: LoadScript, folder: Path) -> Path:
    """The file of one load."""
    number = next(_numbers)
    file = folder / f"load-{number}.lua"
    file.write_text(f"local run = '{number}'\n{script.lua}{_DONE}")
    return file


def _checked(code: int, out: str, error: str) -> dict[str, float]:
    _, found, told = out.rpartition("\nRESULT ")
    if code or not found:
        raise BenchError(f"wrk failed: {out[-500:]} {error[-500:]}")
    said: dict[str, float] = json.loads(told)
    if said["failed"] or said["refused"]:
        raise BenchError(f"Of {said['requests']} requests {said['failed']} failed and {said['refused']} were refused.")
    return said
