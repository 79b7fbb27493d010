"""Commands over the API: what they do, print and end with, on a real server."""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import json
import re
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from socialpub.store.schema.models import Account
from socialpub_client import Socialpub, servers
from socialpub_client.commands import cli, command_table, exit_codes, runner
from tests.clients.conftest import ClientWorld
from tests.support.client_cuts import CuttingTransport
from tests.support.command_runner import CommandResult, RunCommand
from tests.support.connect_flow import sign_in
from tests.support.dashboard_forms import send_compose, target_fields
from tests.support.media_files import picture
from tests.support.media_uploads import wait_until
from tests.support.openapi_document import DOCUMENT, documented_errors
from tests.support.ports import unused_address

PUT = "com.atproto.repo.putRecord"
WRITE_ONLY = Path("/proc/sys/vm/compact_memory")
Json = dict[str, Any]


@pytest.fixture
def run(
    world: ClientWorld, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> RunCommand:
    """Run a command over the API in this process, as Alice; what it waits between tries is no time."""
    monkeypatch.setenv("SOCIALPUB_URL", world.server.url)
    monkeypatch.setenv("SOCIALPUB_KEY", world.alice.key)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(runner, "Socialpub", functools.partial(Socialpub, sleep=lambda _: None))

    def run_one(*arguments: str, stdin: str = "") -> CommandResult:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        try:
            code = cli.main(arguments, [])
        except SystemExit as ended:
            code = int(ended.code or 0)
        return CommandResult(code, *capsys.readouterr())

    return run_one


@pytest.fixture
def faults(world: ClientWorld) -> Iterator[Callable[..., None]]:
    """Add a fault at the simulator; all are gone at the end of the test."""
    lab = world.server.lab.lab
    yield lambda fault, **more: lab.faults.add([{"fault": fault, "operation": PUT, **more}])
    lab.faults.clear()


def is_valid(schema: str, value: Any) -> bool:
    errors = documented_errors({"$ref": f"#/components/schemas/{schema}"}, value, DOCUMENT)
    assert errors == []
    return True


def test_a_command_runs_with_the_collector_that_its_start_had_off(run: RunCommand) -> None:
    """`events --follow` and `mcp` run for months."""
    gc.disable()
    try:
        assert run("whoami").code == exit_codes.DONE
        assert gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
def test_a_wait_before_a_further_try_is_told(
    run: RunCommand, monkeypatch: pytest.MonkeyPatch, quiet: tuple[str, ...]
) -> None:
    def connect(*args: Any, **more: Any) -> Socialpub:
        cut = CuttingTransport(iter(["429 for a minute", "429", None]))
        return Socialpub(*args, **more | {"transport": cut, "sleep": lambda _: None})

    monkeypatch.setattr(runner, "Socialpub", connect)
    ended = run("whoami", *quiet)
    assert (ended.code, "Alice" in ended.out) == (exit_codes.DONE, True)
    assert ended.err == ("" if quiet else "Too many. Trying again in 60 s.\n")


# --- Exit codes ----------------------------------------------------------------------------------------------------


def test_a_post_that_went_out_ends_with_0(run: RunCommand, world: ClientWorld, text: Callable[[], str]) -> None:
    said = text()
    ended = run("post", said, "--to", "bluesky", "--json")
    assert ended.code == exit_codes.DONE, ended.err
    assert is_valid("Batch", ended.json)
    assert ended.json["status"] == "published"
    assert world.texts().count(said) == 1


def test_a_post_that_no_target_took_ends_with_1(
    run: RunCommand, faults: Callable[..., None], text: Callable[[], str]
) -> None:
    faults("status:400", times=1)
    ended = run("post", text(), "--to", "bluesky", "--json")
    assert (ended.code, ended.json["status"]) == (exit_codes.FAILED, "failed")
    assert is_valid("Batch", ended.json)


@pytest.mark.parametrize(
    "line",
    [
        ("post", "x"),
        ("post", "--to", "bluesky", "--at", "2027-03-28 02:30", "--zone", "Europe/Berlin", "x"),
        ("post", "--to", "bluesky", "--at", "2027-10-31 02:30", "--zone", "Europe/Berlin", "x"),
        ("post", "--to", "bluesky", "--at", "2027-01-01 09:30", "x"),
        ("post", "x", "--to", "bluesky", "--at", "2027-01-01T09:30Z", "--wait"),
        ("post", "x", "--to", "@nobody.test"),
        ("post", "x", "--to", "@"),
        ("post", "x", "--to", "Nobody’s group"),
        ("post", "x", "--to", "bluesky", "--to", "bluesky"),
        ("post", "x", "--to", "bluesky", "--media", "missing.jpg"),
        ("post", "--file", "missing.txt", "--to", "bluesky"),
        ("apply", "missing.yaml"),
        ("apply", "."),
        ("post", "x", "--to", "bluesky", "--option", "twitter.replySettings=all"),
        ("posts", "cancel", "01a2b3c4-d5e6-7f80-9a1b-2c3d4e5f6071"),
        ("posts", "settle", "01a2b3c4-d5e6-7f80-9a1b-2c3d4e5f6071"),
        ("api", "GET", "/v1/me", "-f", "x"),
        ("api", "GET", "/v1/me", "--paginate"),
        ("api", "GET", "v1/me"),
        ("api", "GET", "https://other.example/v1/me"),
        ("api", "GET", "//other.example/v1/me"),
        ("nonsense",),
    ],
)
def test_a_wrong_line_ends_with_2_and_says_why(run: RunCommand, line: tuple[str, ...]) -> None:
    ended = run(*line)
    assert (ended.code, ended.out) == (exit_codes.USAGE, "")
    assert "Error: " in ended.err


def test_a_choice_that_is_missing_is_named_whole(run: RunCommand) -> None:
    ended = run("posts", "settle", "01a2b3c4-d5e6-7f80-9a1b-2c3d4e5f6071")
    assert "Missing option '--published' or '--not-published'." in ended.err


@pytest.mark.parametrize(
    "line",
    [
        ("post", "\udcff", "--to", "bluesky"),
        ("posts", "show", "\udcff"),
        ("posts", "list", "--q", "\udcff"),
        ("api", "GET", "/v1/\udcff"),
        ("posts", "list", "--q", "x" * 70_000),
        ("posts", "cancel", "x", "--yes", "--if-match", "ü"),
        ("posts", "cancel", "x", "--yes", "--if-match", "a\nb"),
        ("post", "x", "--to", "bluesky", "--url", "http://[::1"),
        ("mcp", "--http", "127.0.0.1:0", "--url", "http://10.0.0.1"),
        ("mcp", "--http", "127.0.0.1:0", "--url", "http://127.0.0.1:http"),
    ],
)
def test_what_no_request_can_carry_ends_with_2(run: RunCommand, line: tuple[str, ...]) -> None:
    ended = run(*line)
    assert (ended.code, ended.out) == (exit_codes.USAGE, "")
    assert ended.err.startswith("socialpub: ")


def test_bytes_that_are_no_text_end_with_2(
    run: RunCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, world: ClientWorld
) -> None:
    (tmp_path / "body").write_bytes(b"\xff")
    lines = [("post", "--to", "bluesky", "--file"), ("api", "POST", "/v1/posts", "--input")]
    for line in lines:
        assert "is not UTF-8" in run(*line, str(tmp_path / "body")).err
    for errors in ("strict", "surrogateescape"):  # as most locales have it, and as C has it
        for line in lines:
            parsed = command_table.parse([*line, "-"], [])
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff"), encoding="utf-8", errors=errors))
            assert parsed is not None
            with pytest.raises(click.UsageError, match="standard input is not UTF-8"):
                parsed()


def test_text_is_utf_8_whatever_wrote_it_and_in_every_locale(
    run: RunCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A mark at the beginning is none of the text, nor are the line ends of another system."""
    monkeypatch.chdir(tmp_path)
    written = b"\xef\xbb\xbfCaf\xc3\xa9\r\nopen\r\n"
    Path("text").write_bytes(written)
    Path("thread").write_bytes(written + b"---\r\nmore\xe2\x80\xa8lines\r\n")
    lines = [("post", "-"), ("post", "--file", "-"), ("post", "--file", "text"), ("post", "x", "--thread", "-")]
    lines += [("post", "x", "--thread", "thread")]
    for line in lines:
        latin = io.TextIOWrapper(io.BytesIO(written), encoding="latin-1")
        parsed = command_table.parse([*line, "--to", "bluesky", "--show-request"], [])
        monkeypatch.setattr(sys, "stdin", latin)
        assert parsed is not None
        shown = io.StringIO()
        monkeypatch.setattr(sys, "stdout", shown)
        assert parsed() == exit_codes.DONE
        assert '"text":"Café\\nopen"' in shown.getvalue(), line
        assert "thread" not in line or '"text":"more\u2028lines"' in shown.getvalue()
    monkeypatch.undo()


def test_a_body_may_begin_with_a_mark(run: RunCommand, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b'\xef\xbb\xbf{"targets": [{"platform": "bluesky"}], "text": "x"}')
    assert run("api", "POST", "/v1/posts/validate", "--input", str(tmp_path / "body")).json["valid"]


def test_json_that_is_nested_too_deep_is_no_json(run: RunCommand, tmp_path: Path) -> None:
    (tmp_path / "body").write_text("[" * 100_000)
    ended = run("api", "POST", "/v1/posts", "--input", str(tmp_path / "body"))
    assert (ended.code, "is not JSON" in ended.err) == (exit_codes.USAGE, True)


@pytest.mark.parametrize("option", ["--json", "--quiet"])
def test_bytes_of_a_files_name_are_escaped(run: RunCommand, tmp_path: Path, option: str) -> None:
    (tmp_path / "calendar\udcff.yaml").write_text("- no calendar")
    ended = run("apply", str(tmp_path / "calendar\udcff.yaml"), option)
    assert ended.code == exit_codes.REFUSED
    assert "calendar\\udcff.yaml" in ended.err
    assert option != "--json" or "calendar\udcff.yaml" in ended.error["message"]


@pytest.mark.parametrize("name", ["door.png", "med_door.png", "a=b.png", "x=y=z.png"])
def test_a_description_may_be_long_and_a_file_have_any_name(
    run: RunCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(picture("PNG"))
    for alt in ("A door = a way in", "A door. " * 100):
        ended = run("post", "x", "--to", "bluesky", "--media", f"{name}={alt}", "--show-request")
        assert ended.code == exit_codes.DONE, ended.err
        assert f'"altText":"{alt}"' in ended.out
    for wrong in ("missing.png=" + "x" * 1000, "missing.png=a=b", "http://example.org/door.png"):
        ended = run("post", "x", "--to", "bluesky", "--media", wrong)
        assert (ended.code, "Error: --media: " in ended.err) == (exit_codes.USAGE, True)
    assert run("media", "upload", "x" * 1000).code == exit_codes.USAGE


def test_ctrl_c_after_a_post_went_out_does_not_call_it_interrupted(
    run: RunCommand, monkeypatch: pytest.MonkeyPatch, text: Callable[[], str]
) -> None:
    class InterruptedOutput(io.StringIO):
        def write(self, shown: str) -> int:
            raise KeyboardInterrupt

    for line, code in ((("post", text(), "--to", "bluesky"), exit_codes.DONE), (("whoami",), exit_codes.INTERRUPTED)):
        parsed = command_table.parse(line, [])
        with monkeypatch.context() as slow:
            slow.setattr(sys, "stdout", InterruptedOutput())
            assert parsed is not None
            assert parsed() == code


def test_a_file_whose_name_is_no_text_is_uploaded(run: RunCommand, tmp_path: Path) -> None:
    path = tmp_path / "door\udcff.png"
    path.write_bytes(picture("PNG"))
    assert run("media", "upload", str(path), "--json").json["kind"] == "image"


def test_what_the_rules_refuse_ends_with_3_and_its_envelope(run: RunCommand, world: ClientWorld) -> None:
    before = len(world.texts())
    ended = run("post", "x" * 301, "--to", "bluesky", "--json")
    assert ended.code == exit_codes.REFUSED
    assert is_valid("ErrorEnvelope", ended.json)
    assert ended.error["code"] == "preflight_failed"
    assert run("post", "x" * 301, "--to", "bluesky", "--check").code == exit_codes.REFUSED
    assert run("posts", "show", "01a2b3c4-d5e6-7f80-9a1b-2c3d4e5f6071").code == exit_codes.REFUSED
    assert len(world.texts()) == before


def test_an_unknown_key_ends_with_4(run: RunCommand) -> None:
    ended = run("whoami", "--key", "svc_live_" + "0" * 49, "--json")
    assert ended.code == exit_codes.AUTHENTICATION
    assert is_valid("ErrorEnvelope", ended.json)
    assert "Give a valid one: --key, SOCIALPUB_KEY, or `socialpub login`." in ended.err


def test_a_batch_of_which_a_part_went_out_ends_with_5(
    run: RunCommand, world: ClientWorld, faults: Callable[..., None], text: Callable[[], str]
) -> None:
    carol = world.server.person("Carol")
    accounts = [world.server.connect_bluesky(carol, name)["id"] for name in ("first", "second")]
    faults("status:400", times=1)
    ended = run("post", text(), "--to", accounts[0], "--to", accounts[1], "--key", carol.key, "--json")
    assert ended.code == exit_codes.PARTLY, ended.err
    assert ended.json["status"] == "partial_failed"


def test_an_unknown_outcome_ends_with_6(
    run: RunCommand, world: ClientWorld, faults: Callable[..., None], text: Callable[[], str]
) -> None:
    """Once the wait is over, and once nothing can be found out."""
    faults("reset_after", times=1)
    faults("status:503", operation="com.atproto.repo.getRecord")
    line = ("post", text(), "--to", "bluesky", "--external-id", "unknown/1", "--json")
    ended = run(*line, "--wait", "1")
    assert (ended.code, ended.json["status"]) == (exit_codes.UNKNOWN, "queued"), ended.err
    assert "posts list --batch" in ended.err
    world.server.skip(24 * 3600)
    wait_until(lambda: run("posts", "show", ended.json["results"][0]["postId"], "--json").json["status"] == "failed")
    again = run(*line)
    assert again.code == exit_codes.UNKNOWN, again.out
    assert again.json["results"][0]["error"]["rule"] == "publish.outcome_unknown"


def test_a_write_with_lost_answers_ends_with_6_and_prints_its_key(
    run: RunCommand, world: ClientWorld, monkeypatch: pytest.MonkeyPatch, text: Callable[[], str]
) -> None:
    said = text()
    world.client(*["reset after"] * 5)
    monkeypatch.setattr(runner, "Socialpub", _with(world.transport))
    ended = run("post", said, "--to", "bluesky", "--json")
    assert ended.code == exit_codes.UNKNOWN, ended.err
    key = ended.error["idempotencyKey"]
    assert key in ended.err
    monkeypatch.setattr(runner, "Socialpub", Socialpub)
    assert run("post", said, "--to", "bluesky", "--idempotency-key", key).code == exit_codes.DONE
    assert world.texts().count(said) == 1


def test_every_write_can_be_repeated_with_the_key_that_it_printed(
    run: RunCommand, world: ClientWorld, monkeypatch: pytest.MonkeyPatch, text: Callable[[], str]
) -> None:
    said = text()
    fields = ("-f", f"text={said}", "-f", 'targets=[{"platform": "bluesky"}]')
    created = ("webhooks", "create", "https://example.org/hook", "--description", said, "--json")
    for line in (("api", "POST", "/v1/posts", *fields), created):
        world.client(*["reset after"] * 5)
        with monkeypatch.context() as cut:
            cut.setattr(runner, "Socialpub", _with(world.transport))
            ended = run(*line)
        assert ended.code == exit_codes.UNKNOWN
        found = re.search("with (--idempotency-key) ([0-9a-f-]+): ", ended.err)
        assert found is not None, ended.err
        assert run(*line, *found.groups()).code == exit_codes.DONE
    assert world.texts().count(said) == 1
    hooks = [row for row in run("webhooks", "list", "--json").out.splitlines() if said in row]
    assert len(hooks) == 1


def test_every_command_that_writes_takes_a_key() -> None:
    group, others = command_table.build_root([]), {"login", "logout", "whoami", "events", "apply", "mcp"}
    commands = [command for name, command in group.commands.items() if name not in others | {"help"}]
    commands += [each for command in commands if isinstance(command, click.Group) for each in command.commands.values()]
    reading = {"list", "show", "boards", "deliveries"}
    for command in commands:
        if not isinstance(command, click.Group) and command.name not in reading:
            assert "idempotency_key" in {option.name for option in command.params}, command.name


def _with(transport: Any) -> Callable[..., Socialpub]:
    """Make clients over this transport, whatever the command asks for."""

    def make(*arguments: Any, **more: Any) -> Socialpub:
        return Socialpub(*arguments, **more | {"transport": transport, "sleep": lambda _: None})

    return make


class InterruptingTransport:
    """Transport of a person who presses Ctrl-C while a write is under way."""

    def send(self, request: Any) -> Any:
        raise KeyboardInterrupt

    def close(self) -> None:
        """Nothing is open."""


def test_ctrl_c_ends_with_130_and_during_a_write_with_6(run: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "Socialpub", _with(InterruptingTransport()))
    assert run("posts", "list").code == exit_codes.INTERRUPTED
    assert run("api", "GET", "/v1/posts").code == exit_codes.INTERRUPTED
    assert run("api", "DELETE", "/v1/posts/x").code == exit_codes.UNKNOWN
    ended = run("post", "x", "--to", "bluesky", "--idempotency-key", "mine")
    assert (ended.code, "mine" in ended.err) == (exit_codes.UNKNOWN, True)


def test_a_server_that_is_not_reached_ends_with_7(run: RunCommand) -> None:
    with unused_address() as url:
        ended = run("post", "x", "--to", "bluesky", "--url", url, "--json")
    assert (ended.code, ended.error["code"]) == (exit_codes.UNREACHED, "connection_failed")


def test_every_exit_code_is_listed(run: RunCommand) -> None:
    listed = [int(line.split()[0]) for line in run("help", "exit-codes").out.splitlines()]
    assert listed == [*range(8), 130]


# --- post ----------------------------------------------------------------------------------------------------------


def test_the_same_external_id_is_one_post(run: RunCommand, world: ClientWorld, text: Callable[[], str]) -> None:
    said = text()
    line = ("post", "-", "--to", f"@{world.alice.accounts['bluesky']['displayName']}", "--external-id", "once/1")
    first, second = (run(*line, "--json", stdin=f"{said}\n") for _ in range(2))
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert first.json == second.json
    assert world.texts().count(said) == 1


def test_a_group_is_published_to_all_of_its_accounts(
    run: RunCommand, world: ClientWorld, text: Callable[[], str]
) -> None:
    browser = sign_in(world.server, world.alice.organization)
    chosen = [account.id for account in world.plain().accounts.list()]
    saved = send_compose(browser, do="", to="/compose/groups", group_name="Launch team", **target_fields(*chosen))
    assert saved.status_code == 200
    ended = run("post", text(), "--to", "Launch team", "--check", "--json")
    assert ended.code == exit_codes.DONE, ended.err
    assert [target["accountId"] for target in ended.json["results"]] == chosen
    handle = str(world.alice.accounts["bluesky"]["displayName"]).upper()
    assert run("post", text(), "--to", "Launch team", "--to", f"@{handle}").code == exit_codes.USAGE  # is there twice


def test_accounts_are_named_alike_by_all_commands(run: RunCommand, world: ClientWorld, text: Callable[[], str]) -> None:
    account = world.alice.bluesky
    run("post", text(), "--to", "bluesky", "--at", "2099-01-01T09:30Z")
    for name in (account, "bluesky", f"@{world.alice.accounts['bluesky']['displayName']}"):
        assert run("accounts", "show", name, "--json").json["id"] == account
        assert run("accounts", "boards", name, "--json").error["code"] == "validation_failed"  # not of Pinterest
        assert run("post", text(), "--to", name, "--check", "--json").json["results"][0]["accountId"] == account
        assert run("posts", "list", "--account", name, "--limit", "1", "--json").json["accountId"] == account
    for line in (("accounts", "show"), ("accounts", "boards"), ("posts", "list", "--account")):
        ended = run(*line, "pinterest")
        assert (ended.code, "No account is pinterest." in ended.err) == (exit_codes.USAGE, True)


def test_times_are_written_alike_for_all_commands(run: RunCommand, text: Callable[[], str]) -> None:
    made = run("post", text(), "--to", "bluesky", "--at", "2098-12-01 09:30", "--zone", "Europe/Berlin", "--json").json
    batch = ("posts", "list", "--batch", made["id"], "--ids")
    for bounds in (
        ("--scheduled-after", "2098-12-01T08:29Z", "--scheduled-before", "2098-12-01T08:31Z"),
        ("--scheduled-after", "2098-12-01 09:29", "--scheduled-before", "2098-12-01 09:31", "--zone", "Europe/Berlin"),
    ):
        assert run(*batch, *bounds).out == f"{made['results'][0]['postId']}\n"
    for bound in ("--scheduled-before", "--scheduled-after"):  # as their help says, the time itself is neither
        assert run(*batch, bound, "2098-12-01T08:30Z").out == ""
    for wrong in (("--scheduled-after", "2098-12-01"), ("--scheduled-before", "soon"), ("--zone", "Europe/Berlin")):
        assert run(*batch, *wrong).code == exit_codes.USAGE


@pytest.mark.parametrize("line", [("post", "x"), ("post", "--nonsense"), ("posts", "show"), ("nonsense",)])
def test_a_wrong_line_is_told_as_json_too(run: RunCommand, line: tuple[str, ...]) -> None:
    ended = run(*line, "--json")
    assert (ended.code, ended.error["code"]) == (exit_codes.USAGE, "usage")
    assert ended.error["message"] in ended.err


def test_each_broken_rule_is_told_once(run: RunCommand, world: ClientWorld) -> None:
    person = world.server.connected_person("Fay")
    other = world.server.connect_bluesky(person, "other")["id"]
    ended = run("post", "x" * 301, "--to", person.bluesky, "--to", other, "--key", person.key)
    assert ended.err.count("Shorten the text for this target.") == 2
    assert [ended.err.count(f"Target {number}") for number in range(3)] == [1, 1, 0]


def test_several_names_are_looked_up_in_one_list(
    run: RunCommand, world: ClientWorld, monkeypatch: pytest.MonkeyPatch, text: Callable[[], str]
) -> None:
    person = world.server.connected_person("Dana")
    number = world.server.connect_bluesky(person, "other")["platformAccountId"]
    targets = ("--to", "@Dana", "--to", f"@{number}", "--option", 'bluesky.langs=["en"]')
    rename = Account.update(display_name="Emil").where(Account.platform_account_id == number)
    world.server.service.write(lambda tx: rename.execute()).result()
    monkeypatch.setattr(runner, "Socialpub", _with(world.transport))
    ended = run("post", text(), *targets, "--check", "--key", person.key, "--json")
    assert ended.code == exit_codes.DONE, ended.err
    assert len(ended.json["results"]) == 2
    assert [each.method for each in world.transport.requests] == ["GET", "POST"]


def test_media_thread_time_and_zone_reach_the_server(
    run: RunCommand, tmp_path: Path, text: Callable[[], str], world: ClientWorld
) -> None:
    image, pieces, body = tmp_path / "a=b.png", tmp_path / "pieces.txt", tmp_path / "body.txt"
    image.write_bytes(picture("PNG"))
    pieces.write_text("second\n---\nthird\n")
    body.write_text(f"{text()}\n")
    line = ("post", "--file", str(body), "--to", "bluesky", "--media", f"{image}=A door", "--thread", str(pieces))
    ended = run(
        *line, "--at", "2099-12-01 09:30", "--zone", "Europe/Berlin", "--option", 'bluesky.langs=["en"]', "--json"
    )
    assert ended.code == 0, ended.err
    assert ended.json["scheduledAt"] == "2099-12-01T08:30:00.000Z"
    shown = run("posts", "show", ended.json["results"][0]["postId"], "--json").json
    assert is_valid("PostDetail", shown)
    assert shown["text"] == body.read_text().strip()
    assert [item["altText"] for item in shown["mediaRefs"]] == ["A door"]
    assert shown["options"]["langs"] == ["en"]
    assert len(ended.json["results"][0]["thread"]) == 2
    assert run("posts", "cancel", shown["id"], "--yes").code == 0


def test_a_check_publishes_nothing(run: RunCommand, world: ClientWorld, text: Callable[[], str]) -> None:
    said = text()
    ended = run("post", said, "--to", "bluesky", "--check", "--json")
    assert (ended.code, ended.json["valid"]) == (0, True)
    assert is_valid("Validation", ended.json)
    assert said not in world.texts()


def test_shown_requests_hide_the_key_and_send_nothing(
    run: RunCommand, world: ClientWorld, tmp_path: Path, text: Callable[[], str]
) -> None:
    said, image = text(), tmp_path / "seen.png"
    image.write_bytes(picture("PNG", (31, 17)))
    stored = len(run("media", "list", "--limit", "0").out.splitlines())
    ended = run("post", said, "--to", "bluesky", "--media", str(image), "--show-request")
    assert ended.code == 0, ended.err
    upload, publish = ended.out.splitlines()
    assert "file=@seen.png" in upload
    assert "/v1/posts" in publish
    assert said in publish
    assert "$SOCIALPUB_KEY" in publish
    assert world.alice.key not in ended.out + ended.err
    assert said not in world.texts()
    assert len(run("media", "list", "--limit", "0").out.splitlines()) == stored


# --- The other commands --------------------------------------------------------------------------------------------


def test_posts_are_listed_moved_edited_and_canceled(run: RunCommand, text: Callable[[], str]) -> None:
    made = run("post", text(), "--to", "bluesky", "--at", "2099-12-01T09:30Z", "--json").json
    post = made["results"][0]["postId"]
    listed = [json.loads(line) for line in run("posts", "list", "--batch", made["id"], "--json").out.splitlines()]
    assert [row["id"] for row in listed] == [post]
    assert all(is_valid("Post", row) for row in listed)
    assert run("posts", "list", "--batch", made["id"], "--ids").out == f"{post}\n"
    moved = run("posts", "move", post, "--at", "2099-12-02T09:30Z", "--json")
    assert moved.json["scheduledAt"] == "2099-12-02T09:30:00.000Z"
    edited = run("posts", "edit", post, "--text", "-", "--json", stdin="other words\n")
    assert edited.json["text"] == "other words"
    stale = run("posts", "edit", post, "--text", "again", "--if-match", '"old"', "--json")
    assert (stale.code, stale.error["rule"]) == (3, "http.if_match")
    assert run("posts", "cancel", post).code == 2  # no terminal to ask at
    assert run("posts", "cancel", post, "--yes", "--json").json["status"] == "canceled"
    assert run("posts", "retry", post).code == 3
    assert run("posts", "settle", post, "--published").code == 3


def test_media_is_uploaded_found_shown_and_deleted(run: RunCommand, tmp_path: Path) -> None:
    image = tmp_path / "door.png"
    image.write_bytes(picture("PNG", (33, 19)))
    made = run("media", "upload", str(image), "--alt", "A door", "--json").json
    assert is_valid("MediaFile", made)
    assert run("media", "list", "--sha256", made["sha256"]).out.startswith(made["id"])
    assert run("media", "show", made["id"], "--json").json["altText"] == "A door"
    assert run("media", "delete", made["id"], "--yes").code == 0
    assert run("media", "upload", str(tmp_path / "missing.png")).code == 2


def test_an_upload_of_which_a_part_was_stored_ends_with_5(run: RunCommand, tmp_path: Path) -> None:
    for name, content in (("a.png", picture("PNG", (5, 6))), ("b.png", b"no image"), ("c.png", picture("PNG", (6, 5)))):
        (tmp_path / name).write_bytes(content)
    files = [str(tmp_path / name) for name in ("a.png", "b.png", "c.png")]
    ended = run("media", "upload", *files, "--json")
    stored, refused = map(json.loads, ended.out.splitlines())
    assert (ended.code, stored["kind"], refused["error"]["code"]) == (exit_codes.PARTLY, "image", "validation_failed")
    assert run("media", "upload", *files[1:]).code == exit_codes.REFUSED
    run("media", "delete", stored["id"], "--yes")


def test_a_file_that_cannot_be_used_is_told_as_json_too(run: RunCommand, tmp_path: Path) -> None:
    ended = run("events", "--cursor-file", str(tmp_path), "--json")
    assert (ended.code, ended.error["code"]) == (exit_codes.FAILED, "file_error")
    assert f"{tmp_path}: Is a directory" in ended.err
    ended = run("events", "--cursor-file", str(tmp_path / "missing" / "cursor"), "--json")
    assert ended.code == exit_codes.FAILED
    assert f"socialpub: {tmp_path}/missing/cursor: No such file or directory" in ended.err


@pytest.mark.skipif(not WRITE_ONLY.exists(), reason="the kernel has no file that even root cannot read")
@pytest.mark.parametrize(
    "line",
    [
        ("media", "upload", str(WRITE_ONLY)),
        ("post", "x", "--to", "bluesky", "--media", f"{WRITE_ONLY}=A door"),
        ("post", "--to", "bluesky", "--file", str(WRITE_ONLY)),
        ("post", "x", "--to", "bluesky", "--thread", str(WRITE_ONLY)),
        ("api", "POST", "/v1/posts", "--input", str(WRITE_ONLY)),
        ("apply", str(WRITE_ONLY)),
    ],
)
def test_a_file_that_may_not_be_read_ends_with_2(run: RunCommand, line: tuple[str, ...]) -> None:
    ended = run(*line, "--json")
    assert (ended.code, ended.error["code"]) == (exit_codes.USAGE, "usage")
    assert str(WRITE_ONLY) in ended.error["message"]


@pytest.mark.parametrize("types", [(), ("--types", "key.expiring")])
def test_without_an_event_the_end_of_the_log_is_the_cursor(
    run: RunCommand, tmp_path: Path, text: Callable[[], str], types: tuple[str, ...]
) -> None:
    """From now on, then what came since: neither all events again, nor the word `end` as a place."""
    run("post", text(), "--to", "bluesky")
    kept = tmp_path / "cursor"
    start = ("--after", "end") if not types else ()
    first = run("events", *start, *types, "--cursor-file", str(kept))
    assert (first.out, first.err) == ("", f"cursor: {kept.read_text().strip()}\n")
    assert kept.read_text().strip() != "end"
    posted = run("post", text(), "--to", "bluesky", "--at", "2099-12-01T09:30Z", "--json").json
    later = run("events", "--after", kept.read_text().strip(), "--types", "post.queued").out
    assert [json.loads(line)["data"]["batchId"] for line in later.splitlines()] == [posted["id"]]


def test_a_cursor_that_was_refused_is_not_told_as_a_place(run: RunCommand, tmp_path: Path) -> None:
    ended = run("events", "--after", "nonsense", "--cursor-file", str(tmp_path / "cursor"))
    assert (ended.code, ended.out) == (exit_codes.REFUSED, "")
    assert "cursor: nonsense" not in ended.err
    assert not (tmp_path / "cursor").exists()


def test_events_are_json_lines_and_go_on_after_the_kept_cursor(
    run: RunCommand, tmp_path: Path, text: Callable[[], str]
) -> None:
    kept = tmp_path / "cursor"
    run("post", text(), "--to", "bluesky", "--no-wait")
    first = run("events", "--cursor-file", str(kept))
    rows = [json.loads(line) for line in first.out.splitlines()]
    assert rows
    assert all(is_valid("Event", row) for row in rows)
    assert f"cursor: {kept.read_text().strip()}" in first.err
    posted = run("post", text(), "--to", "bluesky", "--at", "2099-12-01T09:30Z", "--json").json
    later = [
        json.loads(line)
        for line in run("events", "--cursor-file", str(kept), "--types", "post.queued").out.splitlines()
    ]
    assert [row["data"]["batchId"] for row in later] == [posted["id"]]


def test_people_read_values_and_not_json(run: RunCommand, faults: Callable[..., None], text: Callable[[], str]) -> None:
    faults("status:400", times=1)
    run("post", text(), "--to", "bluesky")
    post = run("posts", "list", "--limit", "1", "--ids").out.strip()
    shown = dict(line.split(maxsplit=1) for line in run("posts", "show", post).out.splitlines())
    full = run("posts", "show", post, "--json").json
    assert (shown["account.id"], shown["mediaRefs"], shown["url"]) == (full["account"]["id"], "-", "-")
    assert (shown["error.message"], shown["error.code"]) == (full["error"]["message"], full["error"]["code"])
    assert (shown["attempts.1.attemptNumber"], shown["attempts.1.succeeded"]) == ("1", "false")
    made = run("webhooks", "create", "https://example.com/", "--types", "post.failed,post.published").out
    assert re.search(r"^events +post.failed, post.published$", made, re.MULTILINE)
    assert not [line for line in (*shown.values(), made) if line.startswith(("{", "["))]


def test_what_a_terminal_would_obey_is_printed_with_escapes(run: RunCommand, world: ClientWorld) -> None:
    name = "\x1b[31mred\nid 1\x9b \u202eb\u200d"  # U+202E turns what follows; U+200D joins emoji
    query = Account.update(display_name=name).where(Account.id == world.alice.bluesky)
    world.server.service.write(lambda tx: query.execute()).result()
    assert run("accounts", "list").out.rstrip("\n").endswith(r"  active  \x1b[31mred\nid 1\x9b \u202eb" + "\u200d")
    assert run("accounts", "list", "--json").json["displayName"] == name
    shown = run("accounts", "show", world.alice.bluesky)
    assert r"\x1b[31mred" in shown.out
    assert not re.search("[\x1b\x9b\u202e]", shown.out)


def test_accounts_webhooks_and_any_request(run: RunCommand, world: ClientWorld) -> None:
    (account,) = (json.loads(line) for line in run("accounts", "list", "--json").out.splitlines())
    assert is_valid("Account", account)
    assert run("accounts", "show", f"@{account['displayName']}", "--json").json["id"] == account["id"]
    assert run("accounts", "boards", account["id"]).code == 3  # not of Pinterest
    made = run("webhooks", "create", "https://example.org/hook", "--types", "post.failed", "--json").json
    assert is_valid("SignedEndpoint", made)
    assert run("webhooks", "change", made["id"], "--inactive", "--json").json["active"] is False
    assert run("webhooks", "rotate", made["id"], "--json").json["id"] == made["id"]
    assert made["id"] in run("webhooks", "list").out
    assert run("webhooks", "show", made["id"], "--json").json["events"] == ["post.failed"]
    assert run("webhooks", "deliveries", "--endpoint", made["id"]).out == ""
    assert run("webhooks", "delete", made["id"], "--yes").code == 0
    assert json.loads(run("api", "get", "/v1/me").out)["key"]["id"] == world.alice.key_id
    assert run("api", "GET", "/v1/posts", "-f", "limit=1", "--json").json["data"]
    assert len(run("api", "GET", "/v1/posts?limit=1", "--paginate").out.splitlines()) > 1
    assert "x-ratelimit-limit" in run("api", "GET", "/v1/me", "-i").out
    assert run("api", "POST", "/v1/posts/validate", "--input", "-", stdin="{}").code == 3
    several = run("api", "GET", "/v1/posts", "-f", "status=queued", "-f", "status=canceled", "-f", "limit=1", "--json")
    assert (several.code, len(several.json["data"])) == (0, 1)
    assert run("api", "GET", "/v1/posts", "-f", "q=1e3", "-f", "q=null", "--json").error["rule"] == "q"


def test_a_stored_server_is_private_used_and_forgotten(
    run: RunCommand, world: ClientWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run("login", "main", stdin="\n").code == 2  # the key of the environment is not meant
    monkeypatch.delenv("SOCIALPUB_KEY")
    assert run("login", "main", "--url", world.server.url, stdin="svc_live_" + "0" * 49).code == 4
    assert run("login", "main", "--url", world.server.url, "--key", "", stdin="\n").code == 2
    monkeypatch.delenv("SOCIALPUB_URL")
    ended = run("login", "main", "--url", world.server.url, "--json", stdin=f"{world.alice.key}\n")
    assert (ended.code, is_valid("Caller", ended.json)) == (0, True), ended.err
    path = tmp_path / "config" / "socialpub" / "servers.toml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert world.alice.key not in ended.out + ended.err
    assert run("whoami").code == 2  # nothing is called default
    assert run("whoami", "--server", "main", "--json").json["key"]["id"] == world.alice.key_id
    assert run("logout", "main").code == 0
    assert run("whoami", "--server", "main").code == 2


def test_servers_that_are_stored_at_once_are_all_kept(
    run: RunCommand, world: ClientWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each command waits for the one before it; what a killed one has left is removed: there are keys in it."""
    stored = tmp_path / "config" / "socialpub" / "servers.toml"
    stored.parent.mkdir(parents=True)
    (stored.parent / ".servers.toml.killed").write_text(world.alice.key)
    names = [f"server-{number}" for number in range(8)]
    servers_read = threading.Barrier(len(names), timeout=1)
    load = servers.load_servers

    def load_together(path: Path) -> Any:
        found = load(path)
        with contextlib.suppress(threading.BrokenBarrierError):
            servers_read.wait()
        return found

    monkeypatch.setattr(servers, "load_servers", load_together)
    commands = [command_table.parse(["login", name, "--key", world.alice.key, "--quiet"], []) for name in names]
    threads = [threading.Thread(target=command) for command in commands if command]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(load(stored)) == names
    assert list(stored.parent.iterdir()) == [stored]


@pytest.mark.parametrize("name", ["a\x7fb", "a\udcffb", "a\nb"])
def test_a_server_has_a_name_that_can_be_shown(run: RunCommand, world: ClientWorld, name: str) -> None:
    assert run("login", "main", "--key", world.alice.key).code == exit_codes.DONE
    assert run("login", name, "--key", world.alice.key).code == exit_codes.USAGE
    assert run("whoami", "--server", "main").code == exit_codes.DONE


def test_where_the_extra_is_missing_mcp_says_how_to_install_it(
    run: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(("socialpub_client.mcp_server", "mcp."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)  # as where it is not installed
    ended = run("mcp")
    assert ended.code == exit_codes.USAGE
    assert "The MCP server needs the package mcp" in ended.err
    assert "pip install 'socialpub-client[mcp]'" in ended.err
