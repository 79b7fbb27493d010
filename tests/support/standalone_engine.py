"""Publishing engine as a process without a web server, for one scheduled post.

Arguments: a folder, a Bluesky server's URL, a handle and an app password. Prints the outcome of the post.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from socialpub.base.config import Settings
from socialpub.base.runtime import Runtime, SystemClock, format_iso, load_vault
from socialpub.domain.access.actor import Actor, build_operator
from socialpub.domain.accounts import accounts
from socialpub.domain.background.engine import BackgroundEngine
from socialpub.domain.context.app_context import AppContext, close_context, open_context
from socialpub.domain.organizations import profiles
from socialpub.domain.posts import accept, batches
from socialpub.domain.schemas import posts
from socialpub.domain.schemas.profiles import OrganizationRequest
from socialpub.store import database
from socialpub.store.schema import migration

HOUR = 3600


class ShiftedClock(SystemClock):
    """The real time, and so many seconds ahead."""

    ahead = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead * 1000

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


def main(folder: str, origin: str, handle: str, password: str) -> None:
    clock = ShiftedClock()
    settings = Settings.model_validate(
        {
            "database": {"url": str(Path(folder) / "socialpub.db")},
            "security": {"allow_private_networks": True},
            "platforms": {"bluesky": {"api_base": origin}},
        }
    )
    migration.migrate(settings.database_path)
    service = open_context(Runtime(settings, load_vault(settings), clock=clock))
    engine = BackgroundEngine(service)
    engine.start()
    engine.start_jobs()
    batch = asyncio.run(_schedule(service, *_furnish(service, handle, password)))
    clock.ahead = HOUR
    service.jobs.wakeup.wake()
    (result,) = asyncio.run(_ended(service, batch))["results"]
    engine.stop()
    close_context(service)
    print(json.dumps({"status": result["status"], "web": sorted({"sanic", "socialpub.web"} & set(sys.modules))}))


def _furnish(service: AppContext, handle: str, password: str) -> tuple[Actor, str]:
    """An organization with an account."""
    identity, tokens = accounts.login(service, "bluesky", {"handle": handle, "password": password})
    who = build_operator(service, "posts.publish")

    def write(tx: database.Tx) -> tuple[Actor, str]:
        here = who.within(profiles.create_organization(tx, who, OrganizationRequest(name="Acme"))["id"])
        profile, organization = profiles.list_bodies(here.scope)[0]["id"], here.scope.organization
        row, _ = accounts.connect(service, tx, organization, profile, "bluesky", identity, tokens)
        return here, row["id"]

    return service.write(write).result()


async def _schedule(service: AppContext, who: Actor, account: str) -> dict[str, Any]:
    body = {
        "text": "without a web server",
        "targets": [{"accountId": account}],
        "scheduledAt": format_iso(service.now_ms + HOUR * 1000),
    }
    request = posts.PublishRequest.model_validate(body)
    return dict(await accept.commit(await accept.prepare(who, request, None, {})))


async def _ended(service: AppContext, batch: dict[str, Any]) -> dict[str, Any]:
    return await batches.wait_for_batch(service, {"id": batch["id"]}, 30)


if __name__ == "__main__":
    main(*sys.argv[1:])
