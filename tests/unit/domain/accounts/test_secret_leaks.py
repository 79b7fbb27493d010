"""Secret leaks into log, answers, events or database, for every platform."""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.domain.schemas.errors import build_error_body
from socialpub.platforms.contract import Tokens
from socialpub.simulator.server import SimulatorThread
from socialpub.store.database import Tx
from socialpub.store.schema.models import Account, Event
from tests.support.app_server import AppServer, MovableClock, Person, unused_name
from tests.support.shared_server import SharedServer
from tests.support.token_accounts import TokenAccount

NAMES = list(platforms.CONNECTORS)
SHOWN = 16  # so much of a secret is named where it was found
LOGGED = logging.getLogger("socialpub.tokens")


# --- The watch -------------------------------------------------------------------------------------------------------


@pytest.fixture
def watched(tmp_path: Path, lab: SimulatorThread, wall: MovableClock, shared_server: SharedServer) -> AppServer:
    """A server whose apps have secrets; its end is the test's to look at."""
    shared_server.close()
    sites = {name: {"client_id": f"app of {name}", "client_secret": f"{name}-app-canary"} for name in NAMES}
    return AppServer(tmp_path, lab, wall, {"platforms": sites}).start()


@contextlib.contextmanager
def noticed(server: AppServer, *places: str) -> Iterator[None]:
    """What the block leaves in the clear is seen when the server ends, with its place."""
    yield
    with pytest.raises(AssertionError, match="secrets in the clear") as caught:
        server.stop()
    for place in places:
        assert place in str(caught.value)


def test_each_secret_of_each_platform_is_seen_in_the_log(watched: AppServer) -> None:
    ann, secrets = watched.person("Ann"), []
    for name in NAMES:
        access, refresh, key = (f"{name}-{kind}-canary" for kind in ("access", "refresh", "dpop-key"))
        watched.connect(ann, name, tokens=Tokens(access, refresh, None, {"dpopKey": key}))
        secrets += [access, refresh, key, f"{name}-app-canary"]
    assert len({secret[:SHOWN] for secret in secrets}) == 4 * len(NAMES)
    with noticed(watched, *(f"log: {secret[:SHOWN]}" for secret in secrets)):
        for secret in secrets:
            LOGGED.info("renewed %s", secret)


def test_a_secret_is_seen_in_an_answer_and_in_the_database(watched: AppServer) -> None:
    ann, other = watched.person("Ann"), watched.person("Bob")
    watched.connect(ann, "twitter", tokens=Tokens("canary-access"))
    with noticed(watched, "answer: canary-access", "table account: canary-access", "socialpub.db: canary-access"):
        _rename(watched, ann, "so canary-access is my name")
        ann.api.get("/v1/accounts")
        other.api.get("/v1/accounts")


def _rename(server: AppServer, person: Person, name: str) -> None:
    (account,) = (row["id"] for row in person.accounts.values())
    server.service.write(lambda tx: Account.update(display_name=name).where(Account.id == account).execute()).result()


def test_a_secret_is_seen_in_an_event(watched: AppServer) -> None:
    ann = watched.person("Ann")
    watched.connect(ann, "twitter", tokens=Tokens("canary-access"))

    def write(tx: Tx) -> None:
        Event.insert(organization=1, type="token.revoked", data="canary-access", created_at=1).execute()

    with noticed(watched, "table event: canary-access", "socialpub.db: canary-access"):
        watched.service.write(write).result()


def test_secrets_the_simulator_issued_are_detected_though_never_sealed(watched: AppServer) -> None:
    made = watched.lab.lab.add_account("bluesky", handle=unused_name() + ".test")
    secrets = (
        "lab-access-abcdefghijklmnopqrstuvwxyz",
        "lab-refresh-abcdefghijklmnopqrstuvwxyz",
        "lab-code-abcdefghijklmnopqrstuvwxyz",
        made["appPassword"],
        f"eyJ{'a' * 20}.eyJ{'b' * 20}.{'c' * 30}",
        watched.person("Ann").key,
    )
    with noticed(watched, *(f"log: {secret[:SHOWN]}" for secret in secrets)):
        for secret in secrets:
            LOGGED.warning("got %s", secret)


def test_a_traceback_is_read_too(watched: AppServer) -> None:
    with noticed(watched, "log: twitter-app-"):
        try:
            raise ValueError("twitter-app-canary")
        except ValueError:
            LOGGED.exception("a bug")


# --- A platform that repeats what it was sent ------------------------------------------------------------------------


@pytest.fixture(params=NAMES)
def holder(request: pytest.FixtureRequest, connect_account: Callable[..., TokenAccount]) -> TokenAccount:
    vetted = {"vetted": True} if request.param == "linkedin" else {}
    return connect_account(request.param, **vetted)


def echo(holder: TokenAccount, html: bool) -> Any:
    """An error that holds every secret of the account and its app, wherever errors hold words."""
    held, site = holder.held(), holder.server.service.sites[holder.platform]
    words = f"cannot take {held.access} and {held.refresh} of {site.client_secret}"
    if html:
        return f"<html><body>{words}</body></html>"
    told = {"message": words, "code": 100, "type": "x", "nested": [{"why": words}, words]}
    return {"error": told, "detail": words, "title": words, "message": words, "access_token": held.access}


@pytest.mark.matrix
@pytest.mark.parametrize("html", [False, True])
@pytest.mark.parametrize("status", [400, 403, 500])
def test_a_platform_that_repeats_our_secrets_brings_them_nowhere(holder: TokenAccount, status: int, html: bool) -> None:
    fault = {"fault": f"status:{status}", "platform": holder.platform, "body": echo(holder, html)}
    holder.server.lab.lab.faults.add([fault])
    answer = holder.api.publish(holder.body())
    with pytest.raises(ApiError) as caught:
        holder.renewed()
    shown = json.dumps([build_error_body(caught.value, ""), answer.json()])
    assert "[hidden]" in shown or status == 500
    for secret in holder.server.watch.secrets:
        assert secret not in shown
    holder.server.lab.lab.faults.clear()
    assert backed_up(holder.server) == []


def backed_up(server: AppServer) -> list[str]:
    """What stands in the clear in a copy of the database, as a backup is made."""
    folder = server.home / unused_name("backup")
    folder.mkdir()
    with contextlib.closing(sqlite3.connect(server.home / "socialpub.db")) as source:
        source.execute("VACUUM INTO ?", (str(folder / "socialpub.db"),))
    return [leak for leak in server.watch.leaks(folder) if not leak.startswith(("log", "answer"))]
