"""`socialpub listen` and `socialpub trigger` against a real server, by URL and key."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from socialpub_client.commands import exit_codes
from tests.support.app_server import AppServer, Person, error_of
from tests.support.command_runner import CommandProcess, RunCommand
from tests.support.ports import unused_address
from tests.support.publishing_state import schedule_post
from tests.support.webhook_endpoints import register_endpoint
from tests.support.webhook_receiver import ReceivedCall, WebhookReceiver, running_receiver

Start = Callable[..., CommandProcess]
SECRET = "whsec_" + "QUJD" * 11


def happens(server: AppServer, person: Person) -> str:
    """A post is scheduled: `post.queued`, then `post.validated`. Its id."""
    return schedule_post(server, person, seconds=100_000)


@pytest.fixture
def listener(start: Start, server: AppServer, alice: Person) -> Callable[..., CommandProcess]:
    def begin(*more: str) -> CommandProcess:
        process = start("listen", "--url", server.url, "--key", alice.key, *more)
        process.until("listening to ")
        return process

    return begin


# --- As documented -------------------------------------------------------------------------------------------------


def documented(server: AppServer, alice: Person, page: str) -> dict[str, list[str]]:
    """The arguments of each `socialpub` command that a page names, by its first word."""
    found = re.findall(r"<code>socialpub (listen|trigger)( [^<]*)</code>", alice.api.get(page).text)
    return {name: shlex.split(rest) for name, rest in found}


@pytest.mark.parametrize("page", ["/docs/start", "/docs/events"])
def test_the_documented_commands_work_as_they_stand(
    server: AppServer, alice: Person, sink: WebhookReceiver, start: Start, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    commands = documented(server, alice, page)
    assert commands.keys() == {"listen", "trigger"}
    monkeypatch.setenv("SOCIALPUB_URL", server.url)
    monkeypatch.setenv("SOCIALPUB_KEY", alice.key)
    here = [sink.url if part.startswith("http://localhost:3000") else part for part in commands["listen"]]
    process = start("listen", *here)
    process.until("listening to ")
    secret = process.until("signing secret: ").split()[-1]
    post = happens(server, alice)
    assert [(got.event["data"]["id"], got.is_signed(secret)) for got in sink.wait(2)] == [(post, True)] * 2
    assert process.interrupt() == exit_codes.INTERRUPTED
    register_endpoint(alice, sink.url)
    triggered = start("trigger", *commands["trigger"])
    assert sink.wait(3)[-1].event["type"] == "post.failed"
    assert triggered.popen.wait(timeout=60) == 0


# --- listen --------------------------------------------------------------------------------------------------------


def test_what_happens_from_now_on_is_forwarded_signed_and_told(
    server: AppServer, alice: Person, sink: WebhookReceiver, listener: Callable[..., CommandProcess]
) -> None:
    before = happens(server, alice)
    process = listener("--forward-to", sink.url)
    secret = process.until("signing secret: ").split()[-1]
    post = happens(server, alice)
    got = sink.wait(2)
    assert [(call.event["type"], call.event["data"]["id"]) for call in got] == [
        ("post.queued", post),
        ("post.validated", post),
    ]
    assert before not in {call.event["data"]["id"] for call in got}
    assert all(call.is_signed(secret) for call in got)
    for call in got:
        assert process.line() == f"{call.event['type']}  {call.event['id']}  204\n"
        assert call.headers["x-service-event-id"] == call.event["id"] == call.headers["webhook-id"]
        assert call.headers["x-service-delivery-id"].startswith("dlv_")
    assert process.interrupt() == exit_codes.INTERRUPTED


def test_it_forwards_the_very_bytes_that_a_webhook_endpoint_gets(
    server: AppServer, alice: Person, sink: WebhookReceiver, listener: Callable[..., CommandProcess]
) -> None:
    listener("--forward-to", sink.url, "--secret", SECRET)
    with running_receiver() as endpoint:
        register_endpoint(alice, endpoint.url)
        happens(server, alice)
        assert [call.body for call in endpoint.wait(2)] == [call.body for call in sink.wait(2)]
    assert all(call.is_signed(SECRET) for call in sink.got)


def test_only_the_requested_types_and_raw_events_on_request(
    server: AppServer, alice: Person, listener: Callable[..., CommandProcess]
) -> None:
    process = listener("--types", "post.validated", "--print", "--json")
    happens(server, alice)
    told = json.loads(process.line())
    assert (told["type"], told["status"]) == ("post.validated", None)
    assert told["event"] == alice.api.get("/v1/events").json()["data"][-1]
    assert process.interrupt() == exit_codes.INTERRUPTED


def test_it_goes_on_when_the_receiver_fails_or_is_gone(
    server: AppServer, alice: Person, sink: WebhookReceiver, listener: Callable[..., CommandProcess]
) -> None:
    sink.answer = lambda got: 500 if len(sink.got) == 1 else 204
    process = listener("--forward-to", sink.url, "--types", "post.queued")
    for status in ("500", "204"):
        happens(server, alice)
        assert process.line().split()[-1] == status
    with unused_address() as url:
        process = listener("--forward-to", url, "--types", "post.queued")
        for _ in range(2):
            happens(server, alice)
            assert "could not be reached" in process.line()
        assert process.interrupt() == exit_codes.INTERRUPTED


@pytest.mark.slow
def test_it_goes_on_when_the_server_was_away(
    server: AppServer, alice: Person, sink: WebhookReceiver, listener: Callable[..., CommandProcess]
) -> None:
    process = listener("--forward-to", sink.url, "--types", "post.queued")
    first = happens(server, alice)
    sink.wait(1)
    with server.down(alice):
        assert "had no answer" in process.until("Trying again.")
    second = happens(server, alice)
    assert [call.event["data"]["id"] for call in sink.wait(2)] == [first, second]


def test_a_key_that_nobody_knows_ends_it_with_4_and_bad_options_with_2(server: AppServer, run: RunCommand) -> None:
    bad = "svc_live_" + "0" * 49
    ended = run("listen", "--url", server.url, "--key", bad, "--print")
    assert (ended.code, ended.out) == (4, "")
    assert run("listen", "--url", server.url, "--key", bad).code == 2
    for secret in ("whsec_?", "whsec_é", "whsec_", "whsec_=", ""):  # anyone can sign with an empty one
        ended = run("listen", "--url", server.url, "--key", bad, "--print", "--secret", secret)
        assert (ended.code, "--secret must be whsec_ followed by base64" in ended.err) == (2, True)


def test_a_listener_begins_only_where_a_server_answers(run: RunCommand, alice: Person) -> None:
    with unused_address() as url:
        ended = run("listen", "--url", url, "--key", alice.key, "--print", "--json")
    assert (ended.code, ended.error["code"]) == (exit_codes.UNREACHED, "connection_failed")


def test_both_take_a_stored_server_and_keep_its_key_off_plain_http(
    server: AppServer,
    alice: Person,
    sink: WebhookReceiver,
    run: RunCommand,
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "socialpub" / "servers.toml"
    file.parent.mkdir()
    file.touch(0o600)
    file.write_text(f'[work]\nurl = "{server.url}"\nkey = "{alice.key}"\n')
    start("--server", "work", "listen", "--print").until(f"listening to {server.url}; ")
    register_endpoint(alice, sink.url)
    assert run("trigger", "post.failed", "--server", "work").code == exit_codes.DONE
    for words in (("listen", "--print"), ("trigger", "post.failed")):
        ended = run(*words, "--url", "http://socialpub.example.org", "--key", alice.key)
        assert (ended.code, "in the clear" in ended.err) == (exit_codes.USAGE, True)


@pytest.mark.parametrize(
    "address", ["nonsense", "localhost:3000", "ftp://localhost/", "http://", "http://[/", "http://a:b/"]
)
def test_what_is_no_address_ends_them_with_2(server: AppServer, alice: Person, run: RunCommand, address: str) -> None:
    with_key = ("--key", alice.key)
    for given in (
        ("listen", "--url", address, "--print", *with_key),
        ("listen", "--url", server.url, "--forward-to", address, *with_key),
        ("trigger", "post.failed", "--url", address, *with_key),
    ):
        ended = run(*given)
        assert ended.code == 2, ended.err
        assert "must be an http or https URL" in ended.err


# --- trigger -------------------------------------------------------------------------------------------------------


def test_a_sample_goes_to_every_endpoint_that_wants_the_type(
    server: AppServer, alice: Person, sink: WebhookReceiver, run: RunCommand
) -> None:
    wanting = {register_endpoint(alice, f"{sink.url}/{number}")["id"] for number in range(2)}
    register_endpoint(alice, f"{sink.url}/other", events=["post.queued"])
    off = register_endpoint(alice, f"{sink.url}/off")["id"]
    alice.api.patch(f"/v1/webhook-endpoints/{off}", json={"active": False})
    ended = run("--json", "trigger", "post.failed", "--url", server.url, "--key", alice.key)
    assert ended.code == 0, ended.err
    rows = [json.loads(line) for line in ended.out.splitlines()]
    assert {row["endpoint"] for row in rows} == wanting
    assert {(row["delivered"], row["status"]) for row in rows} == {(True, 204)}
    assert {call.path for call in sink.wait(2)} == {"/hooks/0", "/hooks/1"}
    assert {call.event["type"] for call in sink.got} == {"post.failed"}
    assert {call.event["id"] for call in sink.got} == {row["event"] for row in rows}


def test_one_of_two_endpoints_that_fails_ends_it_with_5(
    server: AppServer, alice: Person, sink: WebhookReceiver, run: RunCommand
) -> None:
    sink.answer = lambda got: 500 if got.path == "/hooks/0" else 204
    for number in range(2):
        register_endpoint(alice, f"{sink.url}/{number}")
    ended = run("trigger", "post.failed", "--url", server.url, "--key", alice.key)
    assert (ended.code, len(ended.out.splitlines())) == (exit_codes.PARTLY, 2)


def test_an_endpoint_that_is_gone_hides_none_of_the_earlier_tests(
    server: AppServer, alice: Person, sink: WebhookReceiver, run: RunCommand
) -> None:
    """Another person deletes the second endpoint while the first one is tested."""
    for number in range(2):
        register_endpoint(alice, f"{sink.url}/{number}")

    def delete_the_other(got: ReceivedCall) -> int:
        for row in alice.api.get("/v1/webhook-endpoints").json()["data"]:
            if not row["url"].endswith(got.path):
                alice.api.delete(f"/v1/webhook-endpoints/{row['id']}")
        return 204

    sink.answer = delete_the_other
    ended = run("trigger", "post.failed", "--url", server.url, "--key", alice.key, "--json")
    done, refused = map(json.loads, ended.out.splitlines())
    assert (ended.code, done["delivered"], refused["error"]["code"]) == (exit_codes.PARTLY, True, "not_found")


def test_data_of_ones_own_to_one_endpoint_that_refuses_it(
    server: AppServer, alice: Person, sink: WebhookReceiver, run: RunCommand
) -> None:
    def refuse(got: ReceivedCall) -> int:
        return 422

    sink.answer = refuse
    endpoint = register_endpoint(alice, sink.url, events=["post.queued"])["id"]
    options = ("--url", server.url, "--key", alice.key, "--endpoint", endpoint)
    ended = run("--json", "trigger", "post.failed", *options, "--data", '{"id": "42"}')
    assert ended.out, ended.err
    assert (ended.code, ended.json["status"], ended.json["errorName"]) == (1, 422, "http_4xx")
    assert sink.got[0].event["data"] == {"id": "42"}
    assert run("trigger", "post.failed", *options, "--data", "[1]").code == 2


@pytest.mark.slow
def test_types_endpoints_and_keys_that_are_not_there(server: AppServer, alice: Person, run: RunCommand) -> None:
    options = ("--url", server.url, "--key", alice.key)
    assert run("trigger", "post.gone", *options).code == 2
    told = run("trigger", "post.failed", *options)
    assert (told.code, "No active endpoint" in told.err) == (3, True)
    assert "Register one: socialpub webhooks create URL." in told.err
    assert run("trigger", "post.failed", *options, "--endpoint", "whe_" + "0" * 22).code == 3
    assert run("trigger", "post.failed", "--url", server.url, "--key", "svc_live_" + "0" * 49).code == 4
    with unused_address() as url:
        assert run("trigger", "post.failed", "--url", url, "--key", alice.key).code == exit_codes.UNREACHED


# --- The cursor of now ---------------------------------------------------------------------------------------------


def test_the_cursor_end_is_the_place_after_the_newest_event(server: AppServer, alice: Person, charlie: Person) -> None:
    empty = alice.api.get("/v1/events", params={"cursor": "end"}).json()
    happens(server, alice)
    happens(server, charlie)
    page = alice.api.get("/v1/events", params={"cursor": "end"}).json()
    assert (page["data"], page["nextCursor"]) == ([], None)
    assert alice.api.get("/v1/events", params={"cursor": page["endCursor"]}).json()["data"] == []
    since = alice.api.get("/v1/events", params={"cursor": empty["endCursor"]}).json()["data"]
    assert [event["type"] for event in since] == ["post.queued", "post.validated"]
    post = happens(server, alice)
    later = alice.api.get("/v1/events", params={"cursor": page["endCursor"]}).json()["data"]
    assert [event["data"]["id"] for event in later] == [post] * 2
    assert error_of(alice.api.get("/v1/events", params={"cursor": "END"}))["rule"] == "cursor"
