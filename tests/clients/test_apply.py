"""Calendars as code: plans, and what applying them leaves at the server."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from socialpub.platforms import PLATFORMS
from socialpub.store.schema.models import Account
from socialpub_client import Request, Response, Socialpub, Transport
from socialpub_client.apply import planner
from socialpub_client.apply.calendar import CalendarError
from socialpub_client.apply.calendar_files import read_calendar
from socialpub_client.apply.command import ApplyRequest
from socialpub_client.apply.execution import apply_plan
from socialpub_client.apply.plan_files import read_plan
from socialpub_client.apply.planner import FILLED_IN, Planner
from socialpub_client.http_transport import HttpTransport
from tests.clients.conftest import ClientWorld
from tests.support.apply_runs import run_apply
from tests.support.media_files import picture
from tests.support.media_uploads import JPEG, stored_files
from tests.support.request_cast import make_picture

YEAR = datetime.now(UTC).year + 2
OWN = make_picture(size=(9, 9))  # a file of one test


@pytest.fixture
def file(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Path]:
    """Write a calendar that no other test has; its name is the test's."""
    path = tmp_path / "calendar.yaml"
    (tmp_path / "door.jpg").write_bytes(JPEG)

    def write(posts: str) -> Path:
        path.write_text(
            f"calendar: {request.node.name}\nzone: Europe/Berlin\ndefaults: {{ to: bluesky }}\nposts:\n{posts}"
        )
        return path

    return write


OPENING = f"""
  - id: opening
    at: {YEAR}-06-01 09:00
    text: We open on Monday.
    media: [{{ file: door.jpg, alt: A door }}]
"""
CLOSING = f"""
  - id: closing
    at: {YEAR}-07-01T18:30+02:00
    text: no
"""


def applied(world: ClientWorld, path: Path, **wanted: Any) -> int:
    return run_apply(world.client(), ApplyRequest([path], **wanted))


def writes(world: ClientWorld) -> list[str]:
    """The requests that change something."""
    changing = [request for request in world.transport.requests if request.method != "GET"]
    return [request.url for request in changing if not request.url.endswith("/v1/posts/validate")]


def calendar_posts(world: ClientWorld, name: str) -> list[tuple[str, str, str]]:
    """The posts of a calendar at the server: id, text and time of those that are not canceled."""
    posts = world.plain().posts.list(external_id_prefix=f"{name}/")
    live = [post for post in posts if post.status != "canceled"]
    return sorted((str(post.external_id).partition("/")[2], post.text, str(post.scheduled_at)) for post in live)


def test_a_calendar_is_applied_changed_and_pruned(
    world: ClientWorld, file: Callable[..., Path], request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    name = request.node.name
    files = len(stored_files(world.server))
    assert applied(world, file(OPENING + CLOSING), check="rules") == 0
    assert capsys.readouterr().out.startswith(f"+ opening  {YEAR}-06-01 09:00 Europe/Berlin  bluesky\n")
    assert writes(world) == []
    assert (calendar_posts(world, name), len(stored_files(world.server))) == ([], files)

    assert applied(world, file(OPENING + CLOSING)) == 0
    expected = [
        ("closing", "no", f"{YEAR}-07-01 16:30:00+00:00"),
        ("opening", "We open on Monday.", f"{YEAR}-06-01 07:00:00+00:00"),
    ]
    assert calendar_posts(world, name) == expected
    capsys.readouterr()
    assert applied(world, file(OPENING + CLOSING)) == 0
    assert [line[0] for line in capsys.readouterr().out.splitlines()] == ["=", "="]
    assert [each.method for each in world.transport.requests if each.method != "GET"] == []

    changed = OPENING.replace("09:00", "10:00").replace("Monday", "Friday").replace("A door", "The door")
    assert applied(world, file(changed + CLOSING), check="changes") == 5
    assert applied(world, file(changed + CLOSING)) == 0
    out = capsys.readouterr().out
    assert f"bluesky: at: {YEAR}-06-01 09:00 Europe/Berlin -> {YEAR}-06-01 10:00 Europe/Berlin" in out
    assert '"We open on Monday." -> "We open on Friday."' in out
    assert calendar_posts(world, name)[1] == ("opening", "We open on Friday.", f"{YEAR}-06-01 08:00:00+00:00")
    assert applied(world, file(changed + CLOSING), check="changes") == 0

    assert applied(world, file(changed)) == 0
    assert "1 queued post is in no file" in capsys.readouterr().err
    assert len(calendar_posts(world, name)) == 2
    assert applied(world, file(changed), prune=True) == 0
    assert [post[0] for post in calendar_posts(world, name)] == ["opening"]
    assert applied(world, file(OPENING + CLOSING)) == 0  # the same content again is a new batch
    assert calendar_posts(world, name) == expected
    assert applied(world, file("  []"), prune=True) == 0
    assert calendar_posts(world, name) == []


def test_a_rule_that_breaks_changes_nothing(
    world: ClientWorld, file: Callable[..., Path], request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file(OPENING + CLOSING.replace("text: no", f"text: {'x' * 400}"))
    assert (applied(world, path, check="rules"), applied(world, path)) == (3, 3)
    assert "bluesky.text.max_graphemes" in capsys.readouterr().out
    past = file(OPENING + CLOSING.replace(str(YEAR), "2020"))
    assert applied(world, past) == 3
    assert "its time has passed" in capsys.readouterr().out
    assert applied(world, file(OPENING.replace("text:", "to: [mastodon]\n    text:"))) == 3
    assert calendar_posts(world, request.node.name) == []
    assert writes(world) == []


def test_files_that_fill_a_request_are_checked_in_several(world: ClientWorld, tmp_path: Path) -> None:
    """Each target's check has its own copy of a file that the server does not have: three of these are too many."""
    person = world.server.person("Gil")
    for platform in ("facebook", "threads", "twitter"):
        world.server.connect(person, platform)
    noise = Image.frombytes("RGB", (1250, 1250), os.urandom(1250 * 1250 * 3))
    noise.save(tmp_path / "noise.png")
    path = tmp_path / "large.yaml"
    path.write_text(
        f"calendar: several-requests\nposts:\n  - id: one\n    at: {YEAR}-06-01 09:00Z\n    text: large\n"
        "    to: [facebook, threads, twitter]\n    media: [{ file: noise.png }]\n"
    )
    with Socialpub(world.server.url, person.key) as sp:
        assert run_apply(sp, ApplyRequest([path], "rules")) == 0


def test_a_file_too_large_to_be_checked_is_applied(
    world: ClientWorld,
    file: Callable[..., Path],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of a platform that publishes nothing without media; what else is wrong is found."""
    monkeypatch.setattr(planner, "INLINE_MAX", 100)
    world.server.connect(world.alice, "instagram", accountType="BUSINESS")
    (file("").parent / "door.jpg").write_bytes(picture(size=(640, 640)))
    post = OPENING.replace("text:", "to: instagram\n    text:")
    assert applied(world, file(post.replace("Monday", "x" * 3000)), check="rules") == 3
    assert "instagram.text.max_graphemes" in capsys.readouterr().out
    assert applied(world, file(post), check="rules") == 0
    assert "that the server does not have are not checked" in capsys.readouterr().out
    assert applied(world, file(post)) == 0
    assert [each[0] for each in calendar_posts(world, request.node.name)] == ["opening"]


def test_the_longest_id_is_applied(
    world: ClientWorld, file: Callable[..., Path], request: pytest.FixtureRequest
) -> None:
    longest = "x" * (127 - len(request.node.name))
    assert applied(world, file(CLOSING.replace("closing", longest))) == 0
    assert [post[0] for post in calendar_posts(world, request.node.name)] == [longest]


def test_late_entries_go_out_where_that_is_wanted(
    world: ClientWorld, file: Callable[..., Path], request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"late {request.node.name}"
    path = file(CLOSING.replace(str(YEAR), "2020").replace("text: no", f"text: {text}"))
    assert applied(world, path, publish_late=True) == 0
    world.plain().posts.list(external_id_prefix=f"{request.node.name}/")
    (post,) = world.plain().posts.list(external_id_prefix=f"{request.node.name}/")
    world.plain().batches.get(post.batch_id).wait(60)
    assert world.texts().count(text) == 1
    capsys.readouterr()
    assert applied(world, path) == applied(world, path, publish_late=True) == 0
    assert [line[0] for line in capsys.readouterr().out.splitlines()] == ["=", "="]
    assert writes(world) == []
    moved = path.read_text().replace("2020", str(YEAR))
    path.write_text(moved)
    assert applied(world, path) == 3
    assert "different: at" in capsys.readouterr().out


@pytest.mark.parametrize(("ahead", "late"), [(-3600.0, False), (3600.0, True)])
def test_the_servers_clock_says_what_is_late(
    world: ClientWorld, file: Callable[..., Path], capsys: pytest.CaptureFixture[str], ahead: float, late: bool
) -> None:
    """On a machine whose clock is wrong, `--late=publish` publishes no post before its time."""
    at = datetime.now(UTC) + timedelta(seconds=ahead / 2)
    path = file(f"\n  - {{ id: one, at: {at:%Y-%m-%dT%H:%MZ}, text: at the time of the server {ahead} }}\n")
    name = f"clock-{late}"
    world.server.clock.set_ahead(ahead)
    try:
        assert applied(world, renamed(path, name), publish_late=True) == 0
        (post,) = world.plain().posts.list(external_id=f"{name}/one")
        assert (post.scheduled_at is None) == late
        if not late:
            world.plain().batches.cancel(post.batch_id)
    finally:
        world.server.clock.set_ahead(-ahead)


@pytest.mark.parametrize("change", [None, OWN], ids=["gone", "changed"])
def test_a_file_that_changes_after_the_plan_is_of_its_entry_alone(
    world: ClientWorld, file: Callable[..., Path], capsys: pytest.CaptureFixture[str], change: bytes | None
) -> None:
    """Nothing but what was planned is published, and nothing is canceled for it."""
    name, door = f"changing-{change is None}", file(OPENING).with_name("door.jpg")
    dora = world.server.person(f"Dora-{name}")
    accounts = [world.server.connect_bluesky(dora, f"{each} {name}")["id"] for each in ("first", "second")]

    def apply_to(targets: str, posts: str, transport: Transport | None = None) -> int:
        posts = posts.replace("    text:", f"    to: [{targets}]\n    text:")
        with Socialpub(world.server.url, dora.key, transport=transport) as sp:
            return run_apply(sp, ApplyRequest([renamed(file(posts), name)]))

    assert apply_to(accounts[0], OPENING) == 0
    door.write_bytes(make_picture(size=(7, 8 if change else 9)))

    class Changing(HttpTransport):
        """Transport that sees the file change once the plan is made."""

        def send(self, request: Request) -> Response:
            if request.url.endswith("/v1/posts/validate"):
                door.unlink(missing_ok=True)
                if change is not None:
                    door.write_bytes(change)
            return super().send(request)

    capsys.readouterr()
    assert apply_to(", ".join(accounts), OPENING + CLOSING, Changing()) == 5
    out = capsys.readouterr().out
    assert ("door.jpg has changed" if change else "door.jpg cannot be read") in out
    with Socialpub(world.server.url, dora.key) as sp:
        queued = sp.posts.list(status="queued")
        assert sorted(str(post.external_id).partition("/")[2] for post in queued) == ["closing", "closing", "opening"]
        assert change is None or sp.media.find(sha256=hashlib.sha256(change).hexdigest()) is None


def test_an_account_is_found_by_the_same_name_as_for_post(
    world: ClientWorld, file: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """X's names begin with an @ themselves, and people write them in any case."""
    sp = world.plain()
    (account,) = sp.accounts.list(platform="bluesky")
    for name in (
        f"@{account.display_name}",
        f"@{str(account.display_name).upper()}",
        f"@{account.platform_account_id}",
    ):
        assert applied(world, file(f"{CLOSING}    to: '{name}'\n"), check="rules") == 0
    assert capsys.readouterr().out.count("+ closing") == 3


def test_an_unknown_file_is_a_problem_of_its_entry_alone(
    world: ClientWorld, file: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    unknown = CLOSING.replace("closing", "other") + "    media: [{ id: med_0000000000000000000000 }]\n"
    assert applied(world, file(CLOSING + unknown)) == 3
    assert [line[:9] for line in capsys.readouterr().out.splitlines() if line[0] in "+!"] == ["+ closing", "! other  "]
    assert writes(world) == []


@pytest.mark.parametrize("refuses", [False, True])
def test_a_post_is_no_duplicate_of_what_it_replaces(
    world: ClientWorld,
    file: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    refuses: bool,
) -> None:
    monkeypatch.setattr(world.server.service.runtime.settings.publishing, "refuse_duplicates", refuses)
    name = f"replaced-{refuses}"
    second = world.server.connect(world.alice, "threads", name)["id"]
    first = CLOSING.replace("text: no", f"text: {name}")
    assert applied(world, renamed(file(first), name)) == 0
    moved = first.replace("18:30", "19:30")
    assert applied(world, renamed(file(moved), name)) == 0
    assert applied(world, renamed(file(f"{moved}    to: [bluesky, {second}]\n"), name)) == 0
    out = capsys.readouterr().out
    assert "to: other targets" in out
    assert "duplicate" not in out
    again = moved.replace("closing", "again")
    assert applied(world, renamed(file(moved + again), name), check="rules") == (3 if refuses else 0)
    assert ("post.duplicate" if refuses else "duplicate_content") in capsys.readouterr().out


def renamed(path: Path, name: str) -> Path:
    """Give a calendar this name: brackets of a parametrized test's are in none."""
    path.write_text(re.sub("^calendar: .*", f"calendar: {name}", path.read_text()))
    return path


def test_a_plan_is_applied_as_it_was_shown_or_not_at_all(
    world: ClientWorld, file: Callable[..., Path], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    name, out = request.node.name, tmp_path / "plan.json"
    applied(world, file(OPENING))
    path = file(OPENING.replace("Monday", "Friday") + CLOSING)
    assert applied(world, path, out=out) == 0
    assert len(calendar_posts(world, name)) == 1
    path.unlink()
    (post,) = world.plain().posts.list(external_id=f"{name}/opening")
    edited = world.plain().posts.edit(post.id, text="edited in the dashboard")
    assert applied(world, out) == 3
    assert calendar_posts(world, name)[0][1] == edited.text
    assert writes(world) == []

    path = file(OPENING.replace("Monday", "Friday") + CLOSING)
    assert applied(world, path, out=out) == 0
    assert applied(world, out) == 0
    assert [post[1] for post in calendar_posts(world, name)] == ["no", "We open on Friday."]
    assert applied(world, out) == 0
    assert writes(world) == []
    (tmp_path / "door.jpg").write_bytes(b"another")
    assert applied(world, out) == 3


@pytest.mark.parametrize("out", ["plan.json", "plans/plan.json", "linked/plan.json"])
def test_a_plan_is_applied_in_another_folder_with_its_files(
    world: ClientWorld, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    name = f"moved-{out.replace('/', '-')}"
    here, there = tmp_path / "here", tmp_path / "elsewhere" / "there"
    (here / "calendar").mkdir(parents=True)
    (here / "plans" / "deep").mkdir(parents=True)
    (here / "linked").symlink_to("plans/deep")
    calendar = f"calendar: {name}\nzone: Europe/Berlin\ndefaults: {{ to: bluesky }}\nposts:\n"
    (here / "calendar" / "calendar.yaml").write_text(calendar + OPENING)
    (here / "calendar" / "door.jpg").write_bytes(JPEG)
    monkeypatch.chdir(here / "calendar")
    assert applied(world, Path("calendar.yaml"), out=Path("..", out)) == 0
    there.parent.mkdir()
    here.rename(there)
    monkeypatch.chdir(there)
    assert applied(world, Path(out)) == 0
    assert len(calendar_posts(world, name)) == 1


def test_a_plan_that_cannot_be_written_leaves_the_old_one(
    world: ClientWorld,
    file: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "plan.json"
    assert applied(world, file(OPENING), out=out) == 0
    before = out.read_bytes()
    monkeypatch.setattr(os, "fsync", fail)
    assert applied(world, file(OPENING + CLOSING), out=out) == 1
    assert "No space left" in capsys.readouterr().err
    assert out.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if "plan" in path.name] == ["plan.json"]


def test_an_edit_between_plan_and_apply_is_not_overwritten(
    world: ClientWorld, file: Callable[..., Path], request: pytest.FixtureRequest
) -> None:
    name = request.node.name
    applied(world, file(OPENING + CLOSING))
    changed = read_calendar([file(OPENING.replace("Monday", "Friday") + CLOSING.replace("text: no", "text: yes"))])
    plan = Planner(world.plain()).plan(changed)
    (post,) = world.plain().posts.list(external_id=f"{name}/opening")
    world.plain().posts.edit(post.id, text="edited in the dashboard")
    first, second = apply_plan(world.plain(), plan)
    assert first.error is not None
    assert (first.error.status, second.error) == (412, None)
    assert [post[1] for post in calendar_posts(world, name)] == ["yes", "edited in the dashboard"]


def test_an_option_that_left_the_file_leaves_the_post(
    world: ClientWorld, file: Callable[..., Path], request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    def with_options(options: str) -> Path:
        return file(f"{CLOSING}    only: {{ bluesky: {{ options: {options} }} }}\n")

    def stored() -> Any:
        (post,) = world.plain().posts.list(external_id=f"{request.node.name}/closing")
        return world.plain().posts.get(post.id).options

    assert applied(world, with_options("{ langs: [en], labels: [nudity] }")) == 0
    assert stored() == {"platform": "bluesky", "langs": ["en"], "labels": ["nudity"]}
    assert applied(world, with_options("{ langs: [en], labels: [nudity] }"), check="changes") == 0

    capsys.readouterr()
    assert applied(world, with_options("{ langs: [en] }"), check="changes") == 5
    assert [line.strip() for line in capsys.readouterr().out.splitlines()][1:] == ["bluesky: options: labels removed"]
    assert applied(world, with_options("{ langs: [en] }")) == 0
    assert stored() == {"platform": "bluesky", "langs": ["en"]}

    plan = Planner(world.plain()).plan(read_calendar([file(CLOSING)]))
    (post,) = world.plain().posts.list(external_id=f"{request.node.name}/closing")
    world.plain().posts.edit(post.id, options={"platform": "bluesky", "langs": ["de"]})
    (outcome,) = apply_plan(world.plain(), plan)
    assert outcome.error is not None
    assert (outcome.error.status, stored()) == (412, {"platform": "bluesky", "langs": ["de"]})

    assert applied(world, file(CLOSING)) == 0
    assert stored() == {"platform": "bluesky"}
    assert applied(world, file(CLOSING)) == 0
    assert writes(world) == []


def test_a_board_that_the_server_filled_in_stays(
    world: ClientWorld, file: Callable[..., Path], request: pytest.FixtureRequest
) -> None:
    """Neither an account's new default board nor the loss of another option moves a post."""
    assert {name: tuple(row.defaults) for name, row in PLATFORMS.items() if row.defaults} == FILLED_IN
    paula = world.server.person("Paula")
    account = world.server.connect(paula, "pinterest", defaultBoardId="1", defaultBoardName="One")["id"]

    def apply_with(options: str) -> Any:
        path = file(f"{OPENING}    to: pinterest\n    only: {{ pinterest: {{ options: {{ {options} }} }} }}\n")
        with Socialpub(world.server.url, paula.key) as sp:
            assert run_apply(sp, ApplyRequest([path])) == 0
            (post,) = sp.posts.list(external_id=f"{request.node.name}/opening")
            return sp.posts.get(post.id).options

    assert apply_with("title: A title") == {"platform": "pinterest", "boardId": "1", "title": "A title"}
    extra = json.dumps({"defaultBoardId": "2", "defaultBoardName": "Two"})
    change = Account.update(extra=extra).where(Account.id == account)
    world.server.service.write(lambda tx: change.execute()).result()
    assert apply_with("title: A title") == {"platform": "pinterest", "boardId": "1", "title": "A title"}
    assert apply_with("") == {"platform": "pinterest", "boardId": "1"}


def test_two_runs_at_once_make_one_set(
    world: ClientWorld, file: Callable[..., Path], request: pytest.FixtureRequest
) -> None:
    name = request.node.name
    many = "".join(OPENING.replace("opening", f"post-{number}").replace("Monday", str(number)) for number in range(8))
    request_ = ApplyRequest([file(many)])
    clients = [world.plain(), world.plain()]
    threads = [threading.Thread(target=run_apply, args=(sp, request_)) for sp in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert applied(world, file(many)) == 0
    assert writes(world) == []
    assert [post[0] for post in calendar_posts(world, name)] == [f"post-{number}" for number in range(8)]
    assert len(list(world.plain().media.list())) == len({each.sha256 for each in world.plain().media.list()})


def test_what_is_out_already_is_not_changed(
    world: ClientWorld, file: Callable[..., Path], request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"out {request.node.name}"
    late = CLOSING.replace(str(YEAR), "2020").replace("text: no", f"text: {text}")
    applied(world, file(late), publish_late=True)
    (post,) = world.plain().posts.list(external_id_prefix=f"{request.node.name}/")
    world.plain().batches.get(post.batch_id).wait(60)
    capsys.readouterr()
    assert applied(world, file(late.replace(text, "other"))) == 3
    assert "published already, and different" in capsys.readouterr().out


# --- Files ---------------------------------------------------------------------------------------------------------

HEAD = "calendar: spring\nzone: Europe/Berlin\nposts:\n"
POST = "  - {{ id: a, to: bluesky, text: x, at: {} }}\n"


@pytest.mark.parametrize(
    "text, problem",
    [
        (HEAD + "  - id: a\n    txt: x\n    to: x\n", ":5:5: the field 'txt' is unknown; did you mean 'text'?"),
        (HEAD + "  - {id: a, at: 2026-12-01 09:00, to: x}\n", ":4:39: there is no text for x"),
        (HEAD + "  - {at: 2026-12-01 09:00, to: x, text: y}\n", ":4:5: `id` is missing"),
        (HEAD + POST.format("tomorrow"), ":4:40: 'tomorrow' is no time"),
        (HEAD + POST.format("9999-12-31 23:59Z"), "is out of range"),
        (HEAD + POST.format("2027-03-28 02:30"), "write 2027-03-28 01:30+01:00 or 2027-03-28 03:30+02:00"),
        (HEAD + POST.format("2027-10-31 02:30"), "write 2027-10-31 02:30+02:00 or 2027-10-31 02:30+01:00"),
        (HEAD + POST.format("2027-03-28 02:30"), "does not exist in Europe/Berlin, where the clock is changed"),
        (HEAD + POST.format("2027-10-31 02:30"), "exists twice in Europe/Berlin, where the clock is changed"),
        (HEAD + POST.format("2027-06-01 09:00") * 2, "the id a is there already: "),
        (HEAD.replace("Europe/Berlin", "Berlin"), ":2:7: 'Berlin' is no time zone"),
        (HEAD.replace("zone: Europe/Berlin\n", "") + POST.format("2027-06-01 09:00"), "has no offset"),
        (HEAD + "  - {id: a, id: b}\n", "the field 'id' is there twice"),
        (HEAD + "  - {id: a, to: x, text: y, media: [{file: no.jpg}]}\n", "no.jpg cannot be read"),
        (HEAD + "  - {id: a, to: x, text: y, only: {z: {text: u}}}\n", "`only` has z, which `to` has not"),
        ("posts: [", "the file is not YAML"),
        ("- a", "the file is no mapping"),
        ("posts: []", "`calendar`, its name, is missing"),
        ("calendar: a b\nposts: []", "the name of a calendar has"),
    ],
)  # fmt: skip
def test_a_problem_of_a_file_is_told_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "spring.yaml"
    path.write_text(text)
    with pytest.raises(CalendarError) as refused:
        read_calendar([path])
    assert any(problem in str(each) for each in refused.value.problems), str(refused.value)


@pytest.mark.parametrize("text", ["posts: " + "[" * 5000, "posts: &a [*a]", "posts: &a\n  all: *a"])
def test_a_file_that_is_nested_too_deep_is_told(tmp_path: Path, text: str) -> None:
    for name in ("calendar.yaml", "plan.JSON"):
        (tmp_path / name).write_text(text if name == "calendar.yaml" else "[" * 100_000)
    with pytest.raises(CalendarError, match="nested too deep"):
        read_calendar([tmp_path / "calendar.yaml"])
    with pytest.raises(CalendarError, match="the file is no plan"):
        read_plan(tmp_path / "plan.JSON")


def test_every_problem_is_told_and_nothing_is_asked(
    world: ClientWorld, file: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = file("  - {id: a, at: soon, to: x}\n  - {id: b, at: later, too: x}\n")
    sp = world.client()
    assert run_apply(sp, ApplyRequest([path]), json=True) == 3
    told = capsys.readouterr()
    assert len(told.err.splitlines()) == 5
    assert json.loads(told.out)["error"]["code"] == "validation_failed"
    assert world.transport.requests == []


def test_scalars_stay_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(
        HEAD + "  - {id: 007, at: '2027-06-01 09:00', to: [no, 12:30], text: 1e3,\n"
        "     only: {no: {text: yes, options: {a: true, b: 'true', c: 12, d: '12', e: [x]}}}}\n"
    )
    (entry,) = read_calendar([path]).entries
    assert (entry.id, list(entry.targets)) == ("007", ["no", "12:30"])
    assert [content.text for content in entry.targets.values()] == ["yes", "1e3"]
    assert entry.targets["no"].options == {"a": True, "b": "true", "c": 12, "d": "12", "e": ["x"]}
    assert entry.at == datetime(2027, 6, 1, 7, tzinfo=UTC)


def test_a_spreadsheet_is_a_calendar(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(JPEG)
    path = tmp_path / "spring.csv"
    path.write_text(
        'id,at,to,text,media,alt\na,2027-06-01 09:00Z,"bluesky, threads","Two\nlines",a.jpg;https://x/b.png,A;\n'
    )
    calendar = read_calendar([path])
    (entry,) = calendar.entries
    assert (calendar.name, entry.id, entry.at) == ("spring", "a", datetime(2027, 6, 1, 9, tzinfo=UTC))
    assert [content.text for content in entry.targets.values()] == ["Two\nlines"] * 2
    media = entry.targets["threads"].media
    assert [(item.file, item.url, item.alt) for item in media] == [
        (str(tmp_path / "a.jpg"), None, "A"),
        (None, "https://x/b.png", None),
    ]
    path.write_text("id,at,tex\na,2027-06-01 09:00Z,x\nb\n")
    with pytest.raises(CalendarError) as refused:
        read_calendar([path])
    assert [str(each).partition(".csv")[2] for each in refused.value.problems][:1] == [
        ":1:3: the field 'tex' is unknown; did you mean 'text'?"
    ]
    assert ":3:1: the row has 1 columns" in str(refused.value)


def test_files_make_one_calendar(tmp_path: Path) -> None:
    for name, id in (("one.yaml", "a"), ("two.yaml", "b")):
        (tmp_path / name).write_text(HEAD + f"  - {{ id: {id}, to: bluesky, text: x, at: 2027-06-01 09:00 }}\n")
    calendar = read_calendar([tmp_path / "one.yaml", tmp_path / "two.yaml"])
    assert [entry.id for entry in calendar.entries] == ["a", "b"]
    assert timedelta(0) == calendar.entries[0].at - calendar.entries[1].at
    (tmp_path / "two.yaml").write_text(HEAD.replace("spring", "summer"))
    with pytest.raises(CalendarError, match="of the calendar spring"):
        read_calendar([tmp_path / "one.yaml", tmp_path / "two.yaml"])


@pytest.mark.slow
def test_a_stopped_run_is_followed_by_another_one(
    world: ClientWorld, file: Callable[..., Path], request: pytest.FixtureRequest
) -> None:
    """After any request that arrives or does not, running it again makes exactly the file's posts."""
    path = file(OPENING + CLOSING)
    path.with_name("door.jpg").write_bytes(OWN)
    total = _requests_of_a_run(world, path, request.node.name)
    for at in range(total):
        sp = world.client(*[None] * at, "reset after" if at % 2 else "reset before", retries=0)
        run_apply(sp, ApplyRequest([path]))
        assert applied(world, path) == 0
        assert [post[0] for post in calendar_posts(world, request.node.name)] == ["closing", "opening"]
        assert applied(world, path, check="changes") == 0
        _clear(world, request.node.name)


class Interrupted(HttpTransport):
    """Transport of a person who presses Ctrl-C once a post has been sent."""

    def send(self, request: Request) -> Response:
        response = super().send(request)
        if request.url.endswith("/v1/posts") and request.method == "POST":
            raise KeyboardInterrupt
        return response


def test_ctrl_c_during_a_write_ends_with_6_and_says_what_to_do(
    world: ClientWorld, file: Callable[..., Path], request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file(CLOSING + OPENING)
    with Socialpub(world.server.url, world.alice.key, transport=Interrupted()) as sp:
        assert run_apply(sp, ApplyRequest([path])) == 6
    assert "Run it again: what was accepted is not repeated." in capsys.readouterr().out
    assert len(calendar_posts(world, request.node.name)) == 1
    assert applied(world, path) == 0
    assert len(calendar_posts(world, request.node.name)) == 2


def _requests_of_a_run(world: ClientWorld, path: Path, name: str) -> int:
    assert applied(world, path) == 0
    count = len(world.transport.requests)
    _clear(world, name)
    return count


def _clear(world: ClientWorld, name: str) -> None:
    """Cancel the posts of a calendar, and delete its files."""
    sp: Socialpub = world.plain()
    for batch in {post.batch_id for post in sp.posts.list(external_id_prefix=f"{name}/", status="queued")}:
        sp.batches.cancel(batch)
    stored = sp.media.find(sha256=hashlib.sha256(OWN).hexdigest())
    if stored is not None:
        sp.media.delete(stored.id)
