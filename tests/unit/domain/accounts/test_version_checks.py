"""Daily check of each platform's API version, in use and next, with its notices."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from socialpub import platforms
from socialpub.base.http import UpstreamResponse
from socialpub.domain.accounts import api_versions, version_checks
from socialpub.platforms.contract import Site, VersionProbe
from socialpub.simulator.server import SimulatorThread
from socialpub.store.jobs import job_queue
from socialpub.store.schema.models import VersionCheck
from tests.support.app_server import AppServer, Person
from tests.support.backup_commands import backup_command
from tests.support.soak.soak_world import wait_for
from tests.support.version_notices import version_notices

DAY = 86_400.0
NAME = "linkedin"
ENDED, LIVING = "202511", "202609"


@pytest.fixture
def served(make_server: Callable[..., AppServer], lab: SimulatorThread) -> Callable[..., tuple[AppServer, Person]]:
    """A server with an account at the fake LinkedIn, and this version pinned."""

    def serve(version: str = LIVING, **site: Any) -> tuple[AppServer, Person]:
        there = {"api_base": lab.origin(NAME), "api_version": version, **site}
        server = make_server(platforms={NAME: there})
        ann = server.person("Ann")
        server.connect(ann, NAME)
        return server, ann

    return serve


def look(server: AppServer, seconds: float = 600) -> list[dict[str, Any]]:
    """A look after so long; what it has written down."""
    server.skip(seconds)
    version_checks.check_due(server.service, lambda: False)
    return server.rows(VersionCheck)


def calls(server: AppServer) -> list[str]:
    """The versions that LinkedIn was asked for, in their order."""
    lines = [call for call in server.lab.lab.calls if call.operation == "posts.get"]
    return [call.headers["linkedin-version"] for call in lines]


def test_a_version_that_lives_is_asked_for_once_a_day_and_so_is_the_next(
    served: Callable[..., tuple[AppServer, Person]],
) -> None:
    server, _ = served()
    (row,) = look(server)
    assert (row["platform"], row["pin"], row["heard"]) == (NAME, LIVING, "good")
    assert (row["newer"], row["next_heard"]) == ("202610", "good")
    assert calls(server) == [LIVING, "202610"]
    look(server, DAY - 7200)
    assert len(calls(server)) == 2
    look(server, 7200)
    assert len(calls(server)) == 4
    assert version_notices(server) == []
    assert len(server.rows(VersionCheck)) == 1


def test_a_server_asks_by_itself_ten_minutes_after_its_start(
    make_server: Callable[..., AppServer], lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_queue, "SCHEDULER_SECONDS", 0.05)
    server = make_server(platforms={NAME: {"api_base": lab.origin(NAME)}}, publishing={"version_checks": True})
    server.connect(server.person("Ann"), NAME)
    server.skip(590)
    assert not calls(server)
    server.skip(10)
    assert wait_for(lambda: server.rows(VersionCheck), 30)


def test_a_restart_asks_no_sooner(served: Callable[..., tuple[AppServer, Person]]) -> None:
    server, ann = served()
    look(server)
    server.restart(ann)
    look(server)
    assert len(calls(server)) == 2


def test_a_426_is_told_at_once_with_what_is_answered_in_its_place(
    served: Callable[..., tuple[AppServer, Person]],
) -> None:
    server, ann = served("202512")
    server.lab.lab.faults.add([{"fault": "status:426", "platform": NAME, "operation": "posts.get", "times": 1}])
    (row,) = look(server)
    assert (row["heard"], row["said"], row["newer"], row["next_heard"]) == ("ended", "status 426", "202601", "good")
    (event,) = version_notices(server)
    assert event[0] == ann.organization
    assert event[1]["currentPin"] == "202512"


@pytest.mark.slow
def test_a_version_that_has_ended_in_metrics_doctor_and_event(served: Callable[..., tuple[AppServer, Person]]) -> None:
    server, ann = served(ENDED)
    (row,) = look(server)
    assert (row["pin"], row["heard"], row["said"]) == (ENDED, "ended", "status 426")
    assert (row["newer"], row["next_heard"]) == ("202601", "good")
    (event,) = version_notices(server)
    assert event == (
        ann.organization,
        {"platform": NAME, "currentPin": ENDED, "nextPin": LIVING, "sunsetAt": "2026-11-16T00:00:00.000Z"},
    )
    metrics = server.api().get("/metrics").text
    assert f'socialpub_version_answered{{platform="{NAME}",version="{ENDED}"}} 0.0' in metrics
    assert f'socialpub_version_answered{{platform="{NAME}",version="202601"}} 1.0' in metrics
    assert f'socialpub_version_ends_seconds{{platform="{NAME}",version="{ENDED}"}} -' in metrics
    checks = {each["name"]: each for each in backup_command(server, "doctor", "--offline").json["checks"]}
    said = checks["LinkedIn version"]
    assert said["ok"] is False
    assert f"no longer serves version {ENDED} of its API (status 426, " in said["message"]
    assert said["remediation"] == ("Install a newer socialpub or set platforms.linkedin.api_version to 202601.")
    look(server, DAY)
    assert len(version_notices(server)) == 1


@pytest.mark.parametrize(("pin", "end"), [("202602", "it ends on 2027-02-15"), ("202610", "no end of it is known")])
def test_doctor_says_when_a_version_ends_or_that_it_is_not_known(
    pin: str, end: str, served: Callable[..., tuple[AppServer, Person]]
) -> None:
    server, _ = served(pin)
    (row,) = look(server)
    assert (row["pin"], row["heard"]) == (pin, "good")
    checks = {each["name"]: each for each in backup_command(server, "doctor", "--offline").json["checks"]}
    assert checks["LinkedIn version"]["ok"] is True
    assert f"; {end}" in checks["LinkedIn version"]["message"]


def test_another_pin_is_asked_for_soon_and_the_old_answer_counts_no_more(
    served: Callable[..., tuple[AppServer, Person]],
) -> None:
    server, _ = served(ENDED)
    look(server)
    server.overrides = {
        **server.overrides,
        "platforms": {NAME: server.overrides["platforms"][NAME] | {"api_version": LIVING}},
    }
    server.restart()
    (row,) = look(server)
    assert (row["pin"], row["heard"]) == (LIVING, "good")


def test_no_check_without_an_account_when_disabled_or_while_paused(
    served: Callable[..., tuple[AppServer, Person]],
) -> None:
    server, _ = served(enabled=False)
    assert look(server) == []
    assert calls(server) == []


def test_a_silent_platform_is_asked_again_the_next_day(served: Callable[..., tuple[AppServer, Person]]) -> None:
    server, _ = served()
    server.lab.lab.faults.add([{"fault": "status:503", "platform": NAME, "operation": "posts.get", "times": 2}])
    (row,) = look(server)
    assert (row["heard"], row["said"]) == ("unknown", "status 503")
    assert version_notices(server) == []
    (row,) = look(server, DAY)
    assert row["heard"] == "good"


# --- What an answer says ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "reply", "heard"),
    [
        (VersionProbe("{version}/me"), UpstreamResponse(200, {}, b"{}"), "good"),
        (VersionProbe("{version}/me"), UpstreamResponse(401, {}, b""), "good"),
        (VersionProbe("{version}/me"), UpstreamResponse(429, {}, b""), "good"),
        (VersionProbe("{version}/me"), UpstreamResponse(404, {}, b""), "ended"),
        (VersionProbe("rest/me"), UpstreamResponse(404, {}, b""), "good"),
        (VersionProbe("rest/me"), UpstreamResponse(410, {}, b""), "ended"),
        (VersionProbe("rest/me"), UpstreamResponse(426, {}, b""), "ended"),
        (VersionProbe("rest/me"), UpstreamResponse(502, {}, b""), "unknown"),
        (
            VersionProbe("{version}/me", served="facebook-api-version"),
            UpstreamResponse(200, {"facebook-api-version": "v9"}, b""),
            "good",
        ),
        (
            VersionProbe("{version}/me", served="facebook-api-version"),
            UpstreamResponse(200, {"facebook-api-version": "v22.0"}, b""),
            "ended",
        ),
        (VersionProbe("{version}/me", served="facebook-api-version"), UpstreamResponse(200, {}, b""), "good"),
    ],
)
def test_what_an_answer_says_of_the_version(call: VersionProbe, reply: UpstreamResponse, heard: str) -> None:
    assert version_checks.judge_response(call, "v9", reply)[0] == heard


@pytest.mark.parametrize("name", [name for name, each in platforms.PLATFORMS.items() if each.version_probe])
def test_each_fake_answers_the_call(name: str, make_server: Callable[..., AppServer], lab: SimulatorThread) -> None:
    server = make_server(platforms={name: {"api_base": lab.origin(name), "enabled": True}})
    server.connect(server.person("Ann"), name)
    (row,) = look(server)
    assert (row["platform"], row["heard"]) == (name, "good"), json.dumps(row)


@pytest.mark.parametrize(
    ("name", "pin", "newer"),
    [
        ("linkedin", "202601", "202602"),
        ("linkedin", "202609", "202610"),
        ("linkedin", "202612", "202701"),
        ("facebook", "v25.0", "v26.0"),
        ("instagram", "v26.0", "v27.0"),
        ("threads", "v1.0", None),
    ],
)
def test_the_next_version_is_the_one_that_is_known(name: str, pin: str, newer: str | None) -> None:
    assert platforms.platform(name).find_next_version(Site(api_version=pin)) == newer


def test_what_is_kept_is_one_row_for_each_platform(served: Callable[..., tuple[AppServer, Person]]) -> None:
    server, _ = served()
    for _ in range(3):
        look(server, DAY)
    assert [each.platform for each in server.service.read(api_versions.list_checks).result()] == [NAME]
