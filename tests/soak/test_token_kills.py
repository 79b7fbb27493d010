"""SIGKILL at each step of a token renewal: no account breaks without notice.

The platforms are those whose refresh token changes. Each kill has its account, whose access token has ended, and a post
that needs a new one. Half of the ends are known here beforehand, the others only by the platform's answer to the post.
Where the platform renewed and the answer could not be written down, a refresh token that works once is lost: then the
account has to be reported. Everywhere else, and wherever an old token has its grace, nothing may be lost at all.
"""

from __future__ import annotations

import base64
import contextlib
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from socialpub.base import config
from socialpub.base.runtime import Runtime, load_vault
from socialpub.domain.accounts import tokens
from socialpub.domain.context.app_context import close_context, open_context
from socialpub.store.database import Tx
from socialpub.store.schema.models import Account
from tests.support.platforms.meta_calls import jpeg
from tests.support.reporting import ReportLine
from tests.support.soak.invariants import ClientJournal, check_invariants
from tests.support.soak.soak_world import SoakWorld, configured_count, new_seed, pause, running_world, wait_for

pytestmark = pytest.mark.slow

KILLS = configured_count("token_kills", 50)  # at each point
POINTS = ("tok.after_intent", "tok.after_send", "tok.after_reply", "tok.after_commit")
RENEWALS = {
    "bluesky": "com.atproto.server.refreshSession",
    "pinterest": "oauth.token",
    "tiktok": "oauth.token",
    "twitter": "oauth.token",
}
GRACEFUL = ("bluesky",)  # a refresh token that was used is good for two more hours
LOST = ("tok.after_send", "tok.after_reply")  # the platform has renewed, and its answer is gone
PATIENCE = 30.0
TRIES = 4  # for each kill that is wanted
IMAGE = {"kind": "image", "bytesBase64": base64.b64encode(jpeg()).decode()}


@dataclass(frozen=True)
class Kill:
    """One process that died, and the account whose tokens it was renewing."""

    point: str
    platform: str
    account: str


@dataclass
class Toll:
    """What became of the accounts, by point and platform."""

    lives: Counter[tuple[str, str]] = field(default_factory=Counter)
    told: Counter[tuple[str, str]] = field(default_factory=Counter)
    silent: list[Any] = field(default_factory=list)  # neither works nor was it told
    needless: list[Any] = field(default_factory=list)  # told, although nothing was lost

    def lines(self) -> Iterator[str]:
        for point in POINTS:
            shown = (f"{name} {self.lives[point, name]}+{self.told[point, name]}" for name in RENEWALS)
            yield f"  {point:<17} {'  '.join(shown)}   (working + told)"


def test_kills_while_tokens_are_renewed_break_no_account_in_silence(tmp_path: Path, tell: ReportLine) -> None:
    seed, began = new_seed(), time.monotonic()
    each = -(-KILLS * len(POINTS) // len(RENEWALS)) + TRIES
    with running_world(tmp_path, each, on=tuple(RENEWALS), minute=2.0, publishing={"settle_horizon": 1}) as world:
        world.lab.post("/lab/settings", {"processingMs": 20})
        _end_half(world)
        kills = list(_killed(world, random.Random(seed)))
        world.start()
        world.drain()
        toll = _toll(world, kills)
        assert world.stop() == 0
        report = check_invariants(world, ClientJournal(), (*world.secrets, "lab-access-", "lab-refresh-", "eyJ0eXAi"))
    counts = Counter(kill.point for kill in kills)
    tell(f"kills while tokens are renewed: seed {seed}, {len(kills)} kills, {time.monotonic() - began:.0f} s")
    tell("\n".join([*toll.lines(), *report.lines()]))
    assert (toll.silent, toll.needless) == ([], [])
    assert report.whole, "\n".join(report.lines())
    assert {point: counts[point] for point in POINTS if counts[point] < KILLS} == {}


# --- Killing ---------------------------------------------------------------------------------------------------------


def _end_half(world: SoakWorld) -> None:
    """Let every other access token end now, by what its account's row says.

    TikTok's all: a draft whose making was cut off by the platform's refusal cannot be looked for, which takes long.
    """
    settings = config.load(world.folder / "socialpub.toml")
    service = open_context(Runtime(settings, load_vault(settings)))

    def end(tx: Tx, platform: str, account: str) -> None:
        (sealed,) = Account.select(Account.secret).where(Account.id == account).tuples().get()
        held = replace(tokens.decrypt(service, account, sealed), expires_at_ms=service.now_ms)
        Account.update(**tokens.build_columns(service, account, platform, held)).where(Account.id == account).execute()

    try:
        for platform, accounts in world.accounts.items():
            for account in accounts if platform == "tiktok" else accounts[::2]:
                service.write(lambda tx, p=platform, a=account: end(tx, p, a)).result()
    finally:
        close_context(service)


def _killed(world: SoakWorld, chance: random.Random) -> Iterator[Kill]:
    """Kill after kill, in any order, but never on one platform twice in a row: the post before goes on meanwhile."""
    wanted = [point for point in POINTS for _ in range(KILLS)]
    chance.shuffle(wanted)
    fresh = {name: list(world.accounts[name]) for name in RENEWALS}
    for number, point in enumerate(wanted):
        platform = list(RENEWALS)[number % len(RENEWALS)]
        kill = Kill(point, platform, fresh[platform].pop())
        for _ in range(TRIES):
            if _kill(world, kill):
                yield kill
                break


def _kill(world: SoakWorld, kill: Kill) -> bool:
    """End the access token of an account, and a server in the middle of its renewal; whether that came about."""
    in_flight = kill.point == "tok.after_send"
    (row,) = world.rows("SELECT platform_account_id AS id FROM account WHERE id = ?", kill.account)
    child = world.start("" if in_flight else f"{kill.point}=kill", victims=(kill.platform,))
    _settled(world)
    if kill.platform != "tiktok":
        world.lab.post("/lab/tokens", {"platform": kill.platform, "account": row["id"], "access": "expired"})
    before = len(world.lab.calls()) if in_flight else 0
    if in_flight:
        world.lab.faults({"fault": "late_effect:0.05", "platform": kill.platform, "operation": RENEWALS[kill.platform]})
    with _posting(world, kill):
        if in_flight:
            died = wait_for(lambda: _is_out(world, before), PATIENCE, 0.02)
            world.kill()
            pause(0.1)  # for the effect, which comes after our death
            world.lab.faults()
            return died
        died = child.ended.wait(PATIENCE)
        if not died:
            world.kill()
    assert child.code == -9, world.log.read_text()[-2000:]
    return died


def _settled(world: SoakWorld) -> None:
    """What an earlier death has interrupted is over: no renewal of another account may fall to this one.

    Nor may it come between a draft's making and its id, which TikTok cannot be asked for.
    """
    sql = (
        "SELECT count(*) AS n FROM post p JOIN account a ON a.number = p.account"
        " WHERE p.status IN ('queued', 'validated', 'publishing')"
        " AND (p.platform = 'tiktok' OR (a.renewal_at IS NOT NULL AND a.status = 'active'))"
    )
    assert wait_for(lambda: not world.rows(sql)[0]["n"], 30)


def _is_out(world: SoakWorld, before: int) -> bool:
    return any(call["fault"] and call["status"] is None for call in world.lab.calls()[before:])


@contextlib.contextmanager
def _posting(world: SoakWorld, kill: Kill) -> Iterator[None]:
    """A post that needs new tokens, by a client that will get no answer."""

    def post() -> None:
        with world.client() as client, contextlib.suppress(httpx.HTTPError):
            client.post("/v1/posts", json=_body(f"{kill.point} {kill.account}", kill.account))

    sender = threading.Thread(target=post)
    sender.start()
    yield
    sender.join()


def _body(text: str, *accounts: str) -> dict[str, Any]:
    return {"targets": [{"accountId": each, "text": f"{text} {each}"} for each in accounts], "media": [IMAGE]}


# --- Looking ---------------------------------------------------------------------------------------------------------


def _toll(world: SoakWorld, kills: list[Kill]) -> Toll:
    """Use every account once more: it works, or it says that it has to be connected again."""
    toll, after = Toll(), _used_again(world, [kill.account for kill in kills])
    told = Counter(row["account"] for row in _events(world))
    for kill in kills:
        (row,) = world.rows("SELECT status FROM account WHERE id = ?", kill.account)
        here = (kill, row["status"], after[kill.account], told[kill.account])
        if here[1:] == ("active", "published", 0):
            toll.lives[kill.point, kill.platform] += 1
        elif here[1:] == ("revoked", "account.reconnect_required", 1):
            toll.told[kill.point, kill.platform] += 1
            if kill.point not in LOST or kill.platform in GRACEFUL:
                toll.needless.append(here)
        else:
            toll.silent.append(here)
    return toll


def _events(world: SoakWorld) -> list[dict[str, Any]]:
    return [{"account": json.loads(event.data)["accountId"]} for event in world.happened(type="token.revoked")]


def _used_again(world: SoakWorld, accounts: list[str]) -> dict[str, str]:
    """By account: `published`, or the rule that refused another post."""
    found: dict[str, str] = {}
    with world.client() as client:
        for start in range(0, len(accounts), 25):
            batch = accounts[start : start + 25]
            results = client.post("/v1/posts", json=_body("again", *batch)).json()["results"]
            for account, result in zip(batch, results, strict=True):
                rule = result.get("error", {}).get("rule")
                found[account] = rule or result["status"]
    return found
