"""`socialpub demo`: a fresh server connected to the simulator; also the simulator alone."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import logging
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image

from socialpub import platforms
from socialpub.base import http as outbound
from socialpub.base.config import Settings
from socialpub.base.runtime import Clock
from socialpub.base.system.host_identity import HostIdentity, raise_file_limit
from socialpub.commands.click_types import CommandOptions
from socialpub.commands.demo_history import DemoHistory, ReplayClock
from socialpub.commands.serve import (
    CommandRefusedError,
    bind,
    hold_server_lock,
    load_settings,
    run,
    run_engine_and_web,
    set_up_logging,
    start_service,
)
from socialpub.domain.access import actions
from socialpub.domain.access.actor import ActionBody, Actor, build_operator
from socialpub.domain.accounts import accounts, connect
from socialpub.domain.accounts.connect import LoginResult
from socialpub.domain.background.engine import BackgroundEngine
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.identity import api_keys, users
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas.api_keys import KeyRequest
from socialpub.domain.schemas.common import parse_instant
from socialpub.domain.schemas.profiles import OrganizationRequest, ProfileRequest
from socialpub.platforms.contract import AccountIdentity, OfferedAccount, Tokens
from socialpub.simulator import server as simulator_server
from socialpub.simulator.demo_story import BAKERY, ENDS_MS
from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET, find_server
from socialpub.store.engine.locks import StartError, is_served
from socialpub.web.app import build_app
from socialpub.web.server import run_in_thread, serve_app

EMAIL = "demo@example.com"
IMAGE_TEXT = "Hello from socialpub! https://example.com #hello"
VIDEO_TEXT = "Six seconds of video from socialpub! #hello"


def simulator(options: CommandOptions) -> None:
    """Serve the simulator until a signal, after printing its addresses."""

    def ready(running: simulator_server.RunningSimulator) -> None:
        shown = {"url": running.url, "platforms": running.origins}
        print(json.dumps(shown) if options.json else _describe_addresses(shown), flush=True)

    try:
        simulator_server.run(options.host, options.port, ledger=options.ledger, ready=ready)
    except simulator_server.PortError as error:
        raise StartError(str(error)) from error


def _describe_addresses(shown: dict[str, Any]) -> str:
    lines = [f"The platform simulator: {shown['url']} shows what was published."]
    lines += [f"  {name}: api_base = {origin}" for name, origin in shown["platforms"].items()]
    return "\n".join(lines)


def demo(options: CommandOptions) -> dict[str, Any] | None:
    """Serve until a signal, or (`--once`) publish one batch to every platform and return it.

    For people the demo has a history of days, and a schedule; for programs (`--json`, `--once`) it is empty.
    """
    set_up_logging()
    if options.once:
        logging.getLogger().setLevel(logging.ERROR)
        if not options.json:
            print("Publishing a text with an image to the simulated platforms …", file=sys.stderr, flush=True)
    raise_file_limit()
    clock = ReplayClock()
    is_kept = options.data_dir is not None
    with _open_folder(options) as folder, simulator_server.SimulatorThread(clock) as lab:
        options.database = str(folder / "socialpub.db")
        options.data_dir = str(folder)
        settings = build_settings(options, lab, options.port)
        with hold_server_lock(settings):
            return _demonstrate(options, settings, folder, lab, clock, is_kept=is_kept)


def _demonstrate(
    options: CommandOptions,
    settings: Settings,
    folder: Path,
    lab: simulator_server.SimulatorThread,
    clock: ReplayClock,
    *,
    is_kept: bool,
) -> dict[str, Any] | None:
    sock, bound = bind(settings)
    if options.once or options.json:
        service = start_isolated(bound)
        shown = create_sample_data(service, lab)
    else:
        shown = create_with_history(bound, sock.dup(), lab, clock)  # at the address that its links name
        service = start_isolated(bound)
    if options.once:
        with serve_in_thread(service, sock):
            batch = _publish_once(shown)
        options.exit_code = 0 if batch.get("status") == "published" else 1
        options.sentences = _describe_outcomes(batch)
        return batch
    _write_bodies(folder, shown, lab.url)
    end = f"; {folder} stays until the next demo in it" if is_kept else " and deletes its data"
    run(service, sock, lambda: _print_instructions(options, shown, lab.url, folder, end))
    return None


def start_isolated(settings: Settings, clock: Clock | None = None) -> AppContext:
    """Start a service that leaves nothing outside its directory."""
    return start_service(settings, HostIdentity(), clock)


@contextlib.contextmanager
def serve_in_thread(service: AppContext, sock: socket.socket) -> Iterator[None]:
    """Run the service while the block runs, then close it."""
    engine = BackgroundEngine(service)
    with run_in_thread(run_engine_and_web(engine, serve_app(build_app(service, engine), sock))):
        yield


def create_with_history(
    bound: Settings, sock: socket.socket, lab: simulator_server.SimulatorThread, clock: ReplayClock
) -> dict[str, Any]:
    """Create a database with a history of days; log messages about that are suppressed."""
    logging.disable(logging.CRITICAL)
    try:
        clock.start_in_past()
        service = start_isolated(bound, clock)
        shown = create_sample_data(service, lab)
        bakery = _create_second_profile(service, lab)
        with sock, serve_in_thread(service, sock):
            DemoHistory(service, lab.lab, lab.url, clock, shown["key"], bakery).replay()
    finally:
        logging.disable(logging.NOTSET)
    return shown


@contextlib.contextmanager
def _open_folder(options: CommandOptions) -> Iterator[Path]:
    """Provide the demo's directory: temporary, unless it was named."""
    if options.data_dir is None:
        with tempfile.TemporaryDirectory(prefix="socialpub-demo-") as name:
            yield Path(name)
        return
    folder = Path(options.data_dir)
    if folder.exists() and any(folder.iterdir()):
        if not (folder / ".socialpub-demo").exists():
            raise StartError(f"{folder} is not empty and was not created by the demo; choose another directory")
        if is_served(folder / "socialpub.db"):
            raise CommandRefusedError(f"another demo already runs in {folder}")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".socialpub-demo").touch()
    yield folder


def build_settings(options: CommandOptions, lab: simulator_server.SimulatorThread, port: int | None) -> Settings:
    """Build the settings of a server that uses this simulator."""
    app = {"enabled": True, "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
    sites = {name: {"api_base": lab.origin(name), **app} for name in platforms.CONNECTORS}
    return load_settings(
        options,
        server={"port": port},
        security={"allow_private_networks": True},
        platforms=sites,
    )


def create_sample_data(service: AppContext, lab: simulator_server.SimulatorThread) -> dict[str, Any]:
    """Create organization, key and accounts; return `{url, login, key, accounts}`.

    The key is bound to the accounts' profile, so that a platform's name identifies the account. Connecting more
    accounts shows the simulator's consent page, as at a platform.
    """
    login = {"email": EMAIL, "password": service.runtime.entropy(8).hex()}
    operator = build_operator(service, "command demo")
    made = actions.perform_sync(operator, profiles.create_organization, OrganizationRequest(name="Café Nord"))
    actor = operator.within(str(made["id"]))
    profile = service.read(lambda: connect.choose_profile(actor.scope, None)).result()
    actions.perform_sync(actor, profiles.rename, profile, ProfileRequest(name="Café"))
    key = actions.perform_sync(actor, api_keys.create, KeyRequest(name="demo", profileId=profile))["key"]
    actions.perform_sync(actor, users.create, EMAIL, "owner", users.hash_password(login["password"]))
    connected = [_connect(actor, lab, name, profile) for name in platforms.CONNECTORS]
    for fake in lab.lab.fakes.values():
        if (server := find_server(fake)) is not None:
            server.consent.mode = "form"
    return {"url": service.base_url, "login": login, "key": key, "accounts": connected}


def _connect(actor: Actor, lab: simulator_server.SimulatorThread, name: str, profile: str) -> ActionBody:
    made = lab.lab.add_account(name, handle="demo.test", displayName="Café Nord")
    return connect_account(actor, name, profile, find_credentials(actor.service, name, made))


def connect_account(actor: Actor, name: str, profile: str, found: tuple[AccountIdentity, Tokens]) -> ActionBody:
    """Connect an account."""
    return actions.perform_sync(actor, connect.store_result, name, LoginResult(profile, (OfferedAccount(*found),)))


def _create_second_profile(service: AppContext, lab: simulator_server.SimulatorThread) -> str:
    """Create a second profile with accounts that have problems; return its key."""
    organization = service.read(lambda: profiles.list_organizations()[0]["id"]).result()
    actor = build_operator(service, "command demo").within(str(organization))
    profile = str(actions.perform_sync(actor, profiles.create, ProfileRequest(name="Bakery"))["id"])
    for number, second in enumerate(BAKERY):
        handle = f"nord-bakery-{number}.test"
        made = lab.lab.add_account(second.platform, handle=handle, displayName=second.name)
        identity, tokens = find_credentials(service, second.platform, made)
        if second.ends == "soon":
            tokens = replace(tokens, refresh=None, expires_at_ms=service.now_ms + ENDS_MS)
        connect_account(actor, second.platform, profile, (identity, tokens))
        if second.ends == "revoked":
            lab.lab.end_tokens(second.platform, handle, refresh=True)  # the login's too, which would refresh the Page's
    actions.perform_sync(
        actor, users.create, "mira@example.com", "member", users.hash_password(service.runtime.entropy(8).hex())
    )
    key = KeyRequest(name="The bakery's website", profileId=profile)
    return str(actions.perform_sync(actor, api_keys.create, key)["key"])


def find_credentials(service: AppContext, name: str, made: dict[str, Any]) -> tuple[AccountIdentity, Tokens]:
    """Return identity and tokens of a simulator account."""
    if "appPassword" in made:
        return accounts.login(service, name, {"handle": made["handle"], "password": made["appPassword"]})
    identity = AccountIdentity(made["platformAccountId"], made["displayName"], made.get("extra", {}))
    ends = parse_instant(made["expiresAt"]) if made.get("expiresAt") else None
    return identity, Tokens(made["accessToken"], made.get("refreshToken"), ends)


def _image_body(shown: dict[str, Any]) -> dict[str, Any]:
    """Build a post with a small image, for all accounts whose platform accepts one."""
    image = {"kind": "image", "bytesBase64": base64.b64encode(_picture()).decode(), "altText": "A square of one colour"}
    return {"targets": _targets(shown, "images"), "text": IMAGE_TEXT, "media": [image]}


def _video_body(shown: dict[str, Any], lab_url: str) -> dict[str, Any]:
    """Build a post with a short video from the simulator, for all accounts that accept one."""
    video = {"kind": "video", "url": f"{lab_url}/pages/clip.mp4"}
    return {"targets": _targets(shown, "videos"), "text": VIDEO_TEXT, "media": [video]}


def _targets(shown: dict[str, Any], media: str) -> list[dict[str, str]]:
    takes = [name for name, platform in platforms.PLATFORMS.items() if platform.media.get(media)]
    return [{"accountId": account["id"]} for account in shown["accounts"] if account["platform"] in takes]


def _picture() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (64, 64), (58, 110, 165)).save(buffer, "JPEG", quality=50, optimize=True)
    return buffer.getvalue()


def _write_bodies(folder: Path, shown: dict[str, Any], lab_url: str) -> None:
    """Write requests too long for a command line to files beside the database."""
    (folder / "image.json").write_text(json.dumps(_image_body(shown)))
    (folder / "video.json").write_text(json.dumps(_video_body(shown, lab_url)))


def _publish_once(shown: dict[str, Any]) -> dict[str, Any]:
    body, headers = _image_body(shown), {"Authorization": f"Bearer {shown['key']}"}
    with outbound.HttpClient(outbound.UNGUARDED_POLICY) as http:
        return http.request("POST", f"{shown['url']}/v1/posts", json=body, headers=headers, timeout=90).record()


def _describe_outcomes(batch: dict[str, Any]) -> list[str]:
    """Describe the result of each target, and the total."""
    results = batch.get("results", [])
    lines = [
        f"{platforms.platform(each['platform']).label}: {each['status']}{_describe_result(each)}" for each in results
    ]
    done = sum(each["status"] == "published" for each in results)
    return [*lines, f"{done} of {len(results)} were published." if results else f"Nothing was published: {batch}"]


def _describe_result(result: dict[str, Any]) -> str:
    detail = result.get("error", {}).get("message") or result.get("url") or ""
    return f", {detail}" if detail else ""


def _print_instructions(options: CommandOptions, shown: dict[str, Any], lab_url: str, folder: Path, end: str) -> None:
    if options.json:
        print(json.dumps(shown), flush=True)
        return
    curl = 'curl $SOCIALPUB_URL/v1/posts -H "Authorization: Bearer $SOCIALPUB_KEY" -d'
    first = json.dumps({"targets": [{"platform": shown["accounts"][0]["platform"]}], "text": "Hello"})
    print(
        f"\nsocialpub is running at {shown['url']} with a simulated {_names()} account.\n\n"
        f"  Sign in    {shown['url']}/login as {shown['login']['email']} with {shown['login']['password']}\n"
        f"  Reference  {shown['url']}/docs\n"
        f"  Platforms  {lab_url} shows what was published\n\n"
        "Publish something, from another terminal:\n\n"
        f"  export SOCIALPUB_URL={shown['url']} SOCIALPUB_LAB={lab_url}\n"
        f"  export SOCIALPUB_KEY={shown['key']}\n"
        f"  {curl} '{first}'\n\n"
        "An image to all accounts, and a video to those that accept one:\n\n"
        f"  {curl} @{folder}/image.json\n"
        f"  {curl} @{folder}/video.json\n\n"
        f"Ctrl-C stops the server{end}.",
        flush=True,
    )
    sys.stdout.flush()


def _names() -> str:
    return ", ".join(platforms.platform(name).label for name in platforms.CONNECTORS)
