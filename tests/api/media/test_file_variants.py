"""A file accepted at upload can be published on all eight platforms."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from socialpub import platforms
from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from tests.support.app_server import UNLIMITED, AppServer, Person
from tests.support.media_uploads import upload_media
from tests.support.media_variants import MediaVariant, variants

A_FEW = [
    "JPEG, stray bytes between segments",
    "progressive JPEG, no end mark",
    "JPEG, half of it",
    "PNG, a packed text of 1.8 MB",
    "animated GIF, zeros between blocks",
    "WebP, markup in XMP",
    "MP4, a last box without a size",
    "MP4, markup in a free box",
]


@pytest.fixture
def server(make_server: Callable[..., AppServer], lab: Any) -> AppServer:
    app = {"enabled": True, "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
    return make_server(
        platforms={name: {"api_base": lab.origin(name), **app} for name in platforms.PLATFORMS}, limits=UNLIMITED
    )


@pytest.fixture
def everywhere(server: AppServer) -> Person:
    """Somebody with an account on each platform."""
    person = server.connected_person("Dora")
    for name in platforms.PLATFORMS:
        if name != "bluesky":
            server.connect_simulated(person, name)
    return person


def answers(server: AppServer, person: Person, variant: MediaVariant, number: int) -> list[str]:
    """What is not as it must be: nothing."""
    uploaded = upload_media(person.api, variant.data)
    if not variant.is_whole:
        error = uploaded.json().get("error", {})
        is_told = (error.get("rule"), variant.why in error.get("message", "")) == ("media.unreadable", True)
        return [] if is_told else [f"upload: {uploaded.status_code} {error}"]
    if uploaded.status_code != 201:
        return [f"upload: {uploaded.text}"]
    body = {
        "targets": [{"accountId": account["id"]} for account in person.accounts.values()],
        "text": f"Number {number}",
        "media": [uploaded.json()["id"]],
    }
    validated = person.api.post("/v1/posts/validate", json=body).json()["results"]
    with server.hurried():
        posted = [post["postId"] for post in person.api.publish(body).json()["results"]]
        ended = [server.wait(post, "published", "rejected", "failed", seconds=60) for post in posted]
    told = [{error["rule"] for error in result["errors"]} for result in validated]
    return [wrong for each in zip(person.accounts, told, ended, strict=True) if (wrong := compared(*each))]


def compared(platform: str, told: set[str], ended: dict[str, Any]) -> str:
    """What publishing did otherwise than validation had said; "" when it did the same."""
    rule = json.loads(ended["error"] or "{}").get("rule")
    is_same = ended["status"] == "rejected" and rule in told if told else ended["status"] == "published"
    return "" if is_same else f"{platform}: validation said {sorted(told)}, then {ended['status']} {ended['error']}"


def asked(server: AppServer, person: Person, of: list[MediaVariant]) -> dict[str, list[str]]:
    found = {each.name: answers(server, person, each, number) for number, each in enumerate(of)}
    return {name: wrong for name, wrong in found.items() if wrong}


@pytest.mark.slow
def test_a_file_that_is_accepted_is_published_everywhere(server: AppServer, everywhere: Person) -> None:
    few = [variant for variant in variants() if variant.name in A_FEW]
    assert len(few) == len(A_FEW)
    assert asked(server, everywhere, few) == {}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_every_file_that_is_accepted_is_published_everywhere(server: AppServer, everywhere: Person, part: int) -> None:
    assert asked(server, everywhere, list(itertools.islice(variants(), part, None, 4))) == {}
