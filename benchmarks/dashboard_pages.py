"""Benchmark of dashboard pages: a signed-in user's requests, one after another."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Iterator

import httpx

from benchmarks import dataset
from benchmarks.goals import KEYSTROKE, PAGES, BenchmarkResult
from benchmarks.servers import SIMULATED, BenchmarkSetup, CheckoutServer
from socialpub.domain.schemas.posts import TARGETS_MAX

PATHS = (
    "/",
    "/posts",
    "/posts?status=failed,rejected",
    "/posts?status=published",
    "/posts?status=canceled",
    "/posts?status=queued&order=scheduledAt",
    "/posts?q=release",
    "/calendar",
    "/calendar/week",
    "/calendar/month/2096-10",  # what is due in the made database
    "/calendar/week/2096-10-03",
    "/drafts",
    "/media",
    "/media?q=nothing",
    f"/library/{dataset.UNUSED_FILE}",
    "/accounts",
    f"/accounts/{dataset.account(dataset.BIG, SIMULATED)}",
)
TIMES, QUICK_TIMES = 9, 3
PASSWORD = "correct horse battery"


def measure(stage: BenchmarkSetup) -> Iterator[BenchmarkResult]:
    """The slowest page, in the middle of its times; and the processor's time for a keystroke in the composer."""
    side = stage.first
    with httpx.Client(base_url=side.url, trust_env=False, timeout=60) as http:
        _sign_in(side, http)
        newest = side.get("/v1/posts", limit=1).json()["data"][0]
        paths = (*PATHS, f"/posts/{newest['id']}", f"/posts?batchId={newest['batchId']}")
        times = QUICK_TIMES if stage.quick else TIMES
        found = {path: _asked(http, path, times) for path in paths}
        form = _write(http)
        keystroke = statistics.median(_type(side, http, form, times) for _ in range(3))
    slowest = sorted(found, key=lambda path: -found[path])
    told = ", ".join(f"{path} {found[path]:.1f} ms" for path in slowest[:4])
    yield BenchmarkResult(PAGES, found[slowest[0]], told)
    yield BenchmarkResult(KEYSTROKE, keystroke, f"{sum(name.startswith('to.') for name in form)} accounts")


def _type(side: CheckoutServer, http: httpx.Client, form: dict[str, str], times: int) -> float:
    """The processor's time in ms for a keystroke. It has that of the server's other work in it."""
    used = side.running.usage()
    for _ in range(times):
        http.post("/compose", data=form).raise_for_status()
    return (side.running.usage() - used).cpu_ms / times


def _sign_in(side: CheckoutServer, http: httpx.Client) -> None:
    """As a new owner of the organization that has the posts."""
    (there,) = side.commands((["org", "list"], ""))
    organization = next(row["id"] for row in there if row["name"] == "Bench")
    email = f"{time.time_ns()}@bench.example"
    side.commands((["user", "create", "--org", organization, "--email", email, "--role", "owner"], PASSWORD))
    token = re.search(r'name="csrf_token" value="([0-9a-f]+)"', http.get("/login").text)
    assert token, "the form has one"
    form = {"csrf_token": token[1], "email": email, "password": PASSWORD, "zone": "Europe/Berlin"}
    assert http.post("/login", data=form).status_code == 303, "signed in"


def _write(http: httpx.Client) -> dict[str, str]:
    """The composer's form with a text for as many accounts as a post may have, as its script sends it."""
    page = http.get("/compose").text
    token = re.search(r'name="csrf_token" value="([0-9a-f]+)"', page)
    assert token, "the form has one"
    chosen = dict.fromkeys(re.findall(r'name="(to\.[0-9a-f-]+)"', page)[:TARGETS_MAX], "yes")
    return chosen | {"csrf_token": token[1], "page": "/compose", "do": "live", "text": "We bake at night. " * 14}


def _asked(http: httpx.Client, path: str, times: int) -> float:
    """Milliseconds."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        http.get(path).raise_for_status()
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)
