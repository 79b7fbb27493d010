"""Tools of `socialpub mcp`, called by the client of the MCP SDK."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import INTERNAL_ERROR, CallToolResult, ErrorData

from socialpub.simulator.server import SimulatorThread
from socialpub_client.mcp_server.plans import CheckedPlans
from socialpub_client.mcp_server.remote_files import RemoteFiles
from socialpub_client.mcp_server.server import ServerSettings
from socialpub_client.mcp_server.tool_calls import ROW_BYTES, TEXT_BYTES, cut_text, describe_outcome, shorten_post
from socialpub_client.mcp_server.tool_table import TOOLS
from tests.support.app_server import UNLIMITED, Person, running_server
from tests.support.https_files import https_files
from tests.support.mcp_clients import Answers, AnswersLost, answered, in_process, refused, run
from tests.support.request_cast import RequestCast, make_picture

READING = ["posts:read", "accounts:read"]
PLANNING = ["posts:plan", "accounts:read"]
READ_TOOLS = ["list_accounts", "list_posts", "read_post", "list_events", "explain"]
ALL_TOOLS = [tool.name for tool in TOOLS]
Use = Callable[[Client], Awaitable[Any]]


@pytest.fixture(scope="module")
def cast(tmp_path_factory: pytest.TempPathFactory, lab_thread: SimulatorThread) -> Iterator[RequestCast]:
    """One server for all: each test has texts of its own."""
    with running_server(tmp_path_factory.mktemp("mcp"), lab_thread, limits=UNLIMITED) as server:
        alice = server.connected_person("Alice")
        yield RequestCast(server, alice)


def use(cast: RequestCast, work: Use, person: Person | None = None, **how: Any) -> Any:
    """The result of work with a session of the person's key."""

    async def session() -> Any:
        async with in_process(cast.server.url, (person or cast.alice).key, **how) as client:
            return await work(client)

    return run(session)


def call(cast: RequestCast, tool: str, arguments: dict[str, Any], **how: Any) -> CallToolResult:
    return use(cast, lambda client: client.call_tool(tool, arguments), **how)


def texts(cast: RequestCast) -> list[str]:
    return [entry.text for entry in cast.server.lab.lab.ledger.posts()]


def planned(cast: RequestCast, text: str, **more: Any) -> dict[str, Any]:
    """A checked post, with its plan."""
    return answered(call(cast, "check_post", {"to": [cast.alice.bluesky], "text": text} | more, settings=None))


# --- Which tools there are -----------------------------------------------------------------------------------------


def tool_names(cast: RequestCast, person: Person, settings: ServerSettings | None = None) -> list[str]:
    async def names(client: Client) -> list[str]:
        return [tool.name for tool in (await client.list_tools()).tools]

    return use(cast, names, person, settings=settings)


def test_tools_are_those_that_the_key_may_use(cast: RequestCast) -> None:
    reading = cast.server.limited(cast.alice, scopes=READING)
    planning = cast.server.limited(cast.alice, scopes=PLANNING)
    assert tool_names(cast, reading) == READ_TOOLS
    assert tool_names(cast, planning) == [*READ_TOOLS, "check_post"]
    assert tool_names(cast, cast.alice) == ALL_TOOLS
    assert tool_names(cast, cast.alice, ServerSettings(read_only=True)) == [*READ_TOOLS, "check_post"]


def test_the_list_of_tools_is_short_and_says_what_every_parameter_is(cast: RequestCast) -> None:
    async def listed(client: Client) -> Any:
        return await client.list_tools()

    found = use(cast, listed)
    assert len(found.model_dump_json(by_alias=True, exclude_none=True).encode()) <= 8_000
    parameters = [(tool.name, *one) for tool in found.tools for one in tool.input_schema["properties"].items()]
    assert [name for *name, schema in parameters if not schema.get("description")] == []
    assert len(found.tools) == 11


def test_read_only_refuses_calls_too(cast: RequestCast) -> None:
    async def work(client: Client) -> None:
        for tool in ALL_TOOLS[6:]:
            with pytest.raises(MCPError, match="no such tool"):
                await client.call_tool(tool, {})

    use(cast, work, settings=ServerSettings(read_only=True))


def test_a_key_that_is_unknown_is_told_so(cast: RequestCast) -> None:
    async def listed(client: Client) -> Any:
        with pytest.raises(MCPError, match="unauthenticated") as caught:
            await client.list_tools()
        assert caught.value.error.code == INTERNAL_ERROR  # not the client's parameters
        return await client.call_tool("list_posts", {})

    async def session() -> Any:
        async with in_process(cast.server.url, "sp_live_" + "0" * 40) as client:
            return await listed(client)

    error = refused(run(session))
    assert (error["code"], "SOCIALPUB_KEY" in error["remediation"]) == ("unauthenticated", True)


# --- Check and publish ---------------------------------------------------------------------------------------------


def test_a_plan_is_published_once_however_often_it_is_asked_for(cast: RequestCast) -> None:
    checked = planned(cast, "Once, by a plan")
    assert (checked["valid"], checked["published"]) == (True, False)
    assert "Once, by a plan" not in texts(cast)
    plan = {"plan": checked["plan"]}
    first = answered(call(cast, "publish_post", plan))
    again = answered(call(cast, "publish_post", plan))  # of a process of its own, which knows nothing of the first
    assert first["outcome"] == again["outcome"] == "published"
    assert first["targets"][0]["url"]
    assert again["targets"][0]["post"] == first["targets"][0]["post"]
    assert texts(cast).count("Once, by a plan") == 1


def test_a_plan_whose_answer_was_lost_is_published_once(cast: RequestCast) -> None:
    plan = {"plan": planned(cast, "With a lost answer")["plan"]}
    error = refused(call(cast, "publish_post", plan, transport=AnswersLost()))
    assert (error["code"], "with the same plan" in error["remediation"]) == ("outcome_unknown", True)
    assert answered(call(cast, "publish_post", plan))["outcome"] == "published"
    assert texts(cast).count("With a lost answer") == 1


def test_what_is_not_out_yet_is_called_accepted(cast: RequestCast) -> None:
    at = cast.soon()
    found = answered(call(cast, "publish_post", {"plan": planned(cast, "Later, by a plan", at=at)["plan"]}))
    assert found["outcome"] == "1 accepted, not yet published: read_post tells when"
    assert "Later, by a plan" not in texts(cast)


def test_outcomes_in_words() -> None:
    rows = [{"status": status} for status in ("published", "failed", "queued")]
    assert describe_outcome(rows[:1]) == "published"
    assert describe_outcome(rows[:2]) == "1 published, 1 failed"
    assert describe_outcome(rows[1:2]) == "1 failed"
    assert describe_outcome(rows) == "1 published, 1 failed, 1 accepted, not yet published: read_post tells when"
    thread = {"status": "published", "thread": rows}
    assert describe_outcome([thread]).startswith("2 published, 1 failed, 1 accepted")


def test_a_check_says_what_is_wrong_and_makes_no_plan(cast: RequestCast) -> None:
    found = planned(cast, "x" * 301)
    (target,) = found["targets"]
    assert (found["valid"], "plan" in found) == (False, False)
    assert target["errors"][0]["rule"] == "bluesky.text.max_graphemes"
    assert target["length"] == {"length": 301, "limit": 300, "unit": "graphemes"}


def test_a_planning_key_sends_nothing_to_a_platform(cast: RequestCast) -> None:
    planning = cast.server.limited(cast.alice, scopes=[*PLANNING, "media"])
    plan = answered(call(cast, "check_post", {"to": [cast.alice.bluesky], "text": "Only planned"}, person=planning))[
        "plan"
    ]
    post = cast.scheduled(text="Queued by another key")
    before = len(cast.server.lab.lab.ledger.posts())
    refusals = [
        call(cast, tool, arguments, person=planning)
        for tool, arguments in (
            ("publish_post", {"plan": plan}),
            ("change_post", {"id": post, "version": "x", "text": "Changed"}),
            ("cancel_post", {"id": post}),
            ("retry_post", {"id": post}),
        )
    ]
    for refusal in refusals:
        error = refused(refusal)
        assert (error["code"], error["rule"]) == ("unauthorized", "api_key.scope")
        assert error["details"]["needed"] == "posts:write"
        assert error["remediation"]
    assert len(cast.server.lab.lab.ledger.posts()) == before
    assert cast.alice.api.get(f"/v1/posts/{post}").json()["text"] == "Queued by another key"


def test_a_publication_that_failed_whole_is_an_error(cast: RequestCast) -> None:
    account = cast.server.connect_bluesky(cast.alice, "suspended")["id"]
    plan = answered(call(cast, "check_post", {"to": [account], "text": "Refused upstream"}))["plan"]
    cast.server.lab.lab.faults.add([{"fault": "status:400", "operation": "com.atproto.repo.putRecord", "times": 1}])
    result = call(cast, "publish_post", {"plan": plan})
    assert result.is_error
    assert result.structured_content["outcome"] == "1 failed"
    assert {"code", "message", "remediation"} <= set(result.structured_content["targets"][0]["error"])


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_person_is_asked_with_the_whole_post(cast: RequestCast, mode: str) -> None:
    settings, user, own = ServerSettings(), Answers(), cast.alice.bluesky

    async def work(client: Client) -> tuple[Any, Any]:
        arguments = {"to": [own], "text": f"Asked, {mode}", "only": {own: {"text": f"Own, {mode}"}}}
        plan = (await client.call_tool("check_post", arguments)).structured_content["plan"]
        user.action = "decline"
        declined = await client.call_tool("publish_post", {"plan": plan})
        assert f"Own, {mode}" not in texts(cast)
        user.action = "accept"
        return declined, await client.call_tool("publish_post", {"plan": plan})

    declined, accepted = use(cast, work, settings=settings, user=user, mode=mode)
    assert refused(declined)["code"] == "declined"
    assert answered(accepted)["outcome"] == "published"
    assert texts(cast).count(f"Own, {mode}") == 1
    assert len(user.questions) == 2
    for shown in ("Alice (bluesky)", f"Asked, {mode}", f"Own, {mode}", "When: now"):
        assert shown in user.questions[0]


def test_nobody_is_asked_where_the_server_was_told_not_to(cast: RequestCast) -> None:
    user = Answers("decline")
    plan = planned(cast, "Not asked")["plan"]
    result = call(cast, "publish_post", {"plan": plan}, settings=ServerSettings(asks=False), user=user)
    assert (answered(result)["outcome"], user.questions) == ("published", [])


def test_a_client_that_fails_to_ask_publishes_nothing(cast: RequestCast) -> None:
    async def fail(*_: Any) -> ErrorData:
        return ErrorData(code=INTERNAL_ERROR, message="no window")

    plan = planned(cast, "Not shown")["plan"]
    error = refused(call(cast, "publish_post", {"plan": plan}, settings=ServerSettings(), user=fail, mode="legacy"))
    assert error["code"] == "not_asked"
    assert error["message"] == "The user could not be asked: no window. Nothing was published."
    assert "Not shown" not in texts(cast)


def test_plans_that_were_made_elsewhere_are_asked_about_as_such() -> None:
    plans = CheckedPlans(kept=1)
    content, results = {"targets": [{}], "text": "t" * 9000}, [{"platform": "bluesky", "account": "a"}]
    plans.keep("first", content, results)
    plans.keep("second", content, results)
    assert "cannot be shown" in plans.question("first")
    assert plans.question("second").endswith("more characters)")


@pytest.mark.parametrize("tool", ["check_post", "change_post", "retry_post"])
def test_a_time_without_a_zone_is_refused_with_the_profiles_zone(cast: RequestCast, tool: str) -> None:
    slots = {"profileId": cast.alice.profile, "zone": "Europe/Berlin", "weekly": [{"day": "mon", "time": "09:30"}]}
    assert cast.alice.api.put("/v1/slots", json=slots).status_code == 200
    more = {"to": [cast.alice.bluesky], "text": "x"} if tool == "check_post" else {"id": cast.scheduled(text="zone")}
    version = {"version": "x"} if tool == "change_post" else {}
    error = refused(call(cast, tool, {"at": "2030-12-01T09:30:00"} | more | version))
    assert (error["rule"], "Europe/Berlin" in error["remediation"]) == ("scheduledAt", True)
    assert "2030-12-01T09:30:00+01:00" in error["remediation"]


def test_arguments_that_do_not_fit_are_all_named(cast: RequestCast) -> None:
    error = refused(call(cast, "check_post", {"to": [], "text": 5, "media": ["x"], "zone": "UTC"}))
    assert all(word in error["message"] for word in ("to:", "text:", "media.0:", "zone"))
    error = refused(call(cast, "check_post", {"to": ["twitter"], "text": "x", "only": {"linkedin": {"text": "y"}}}))
    assert "linkedin" in error["message"]
    error = refused(call(cast, "read_post", {"id": "../accounts"}))
    assert error["rule"] == "id"
    error = refused(call(cast, "check_post", {"to": ["twitter"], "text": "x" * 100_001}))
    assert (error["message"].endswith(" is too long"), len(error["message"]) < 100) == (True, True)


@pytest.mark.parametrize("tool", ["list_posts", "list_events"])
def test_a_number_with_a_point_is_an_integer_as_in_the_schema(cast: RequestCast, tool: str) -> None:
    assert "cursor" in answered(call(cast, tool, {"limit": 1.0}))


# --- Read and change -----------------------------------------------------------------------------------------------


def test_accounts_are_listed_with_what_they_need(cast: RequestCast) -> None:
    cast.server.connect(cast.alice, "linkedin")
    rows = answered(call(cast, "list_accounts", {}))["accounts"]
    assert {(row["platform"], row["status"]) for row in rows} >= {("bluesky", "active"), ("linkedin", "active")}
    rows = answered(call(cast, "list_accounts", {"platform": "linkedin"}))["accounts"]
    assert [row["platform"] for row in rows] == ["linkedin"]


def test_rows_of_posts_are_short(cast: RequestCast) -> None:
    for text in ("ü" * 290, '"\\' * 140, "🥖" * 200, "short"):
        cast.scheduled(text=text)

    async def pages(client: Client) -> list[dict[str, Any]]:
        rows, cursor = list[dict[str, Any]](), None
        while True:
            more = {"cursor": cursor} if cursor else {}
            page = answered(await client.call_tool("list_posts", {"status": ["queued"], "limit": 2} | more))
            rows += page["posts"]
            cursor = page.get("cursor")
            if cursor is None:
                return rows

    rows = use(cast, pages)
    assert max(len(json.dumps(row, ensure_ascii=False).encode()) for row in rows) <= ROW_BYTES
    assert "short" in [row["text"] for row in rows]
    assert {row["id"] for row in rows} == {
        row["id"] for row in cast.alice.api.get("/v1/posts?status=queued&limit=100").json()["data"]
    }


def test_long_texts_are_cut_between_characters() -> None:
    assert cut_text("a" * TEXT_BYTES, TEXT_BYTES) == "a" * TEXT_BYTES
    assert cut_text("é" * 100, 11) == "éééé…"
    row = {"id": "i", "platform": "p", "status": "failed", "publishedAt": None, "scheduledAt": "s", "text": "\n" * 500}
    assert len(json.dumps(shorten_post(row | {"error": {"code": "c" * 40}}))) <= ROW_BYTES


def test_a_post_is_changed_only_as_it_was_read(cast: RequestCast) -> None:
    post = cast.scheduled(text="As it was")

    async def work(client: Client) -> None:
        read = answered(await client.call_tool("read_post", {"id": post}))
        assert read["post"]["text"] == "As it was"
        change = {"id": post, "version": read["version"], "text": "As it is"}
        for _ in range(2):  # as after a lost answer
            changed = answered(await client.call_tool("change_post", change))
            assert changed["post"]["text"] == "As it is"
        stale = refused(await client.call_tool("change_post", change | {"text": "As it will not be"}))
        assert (stale["rule"], "Call read_post" in stale["remediation"]) == ("http.if_match", True)
        lost = refused(await client.call_tool("publish_post", {"plan": f"plan_{'A' * 43}"}))
        assert (lost["rule"], "Call check_post again" in lost["remediation"]) == ("plan.unknown", True)
        assert refused(await client.call_tool("change_post", {"id": post, "version": "x"}))["message"]
        canceled = answered(await client.call_tool("cancel_post", {"id": post}))
        assert canceled["post"]["status"] == "canceled"
        assert refused(await client.call_tool("retry_post", {"id": post}))["code"] == "validation_failed"

    use(cast, work)
    assert cast.alice.api.get(f"/v1/posts/{post}").json()["text"] == "As it is"


def test_events_go_on_from_their_cursor(cast: RequestCast) -> None:
    async def work(client: Client) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        before = answered(await client.call_tool("list_events", {"after": "end"}))
        post = cast.scheduled(text="An event")
        found = answered(await client.call_tool("list_events", {"after": before["cursor"], "types": ["post.queued"]}))
        assert found["events"][0]["data"]["id"] == post
        return before, found, answered(await client.call_tool("list_events", {"after": found["cursor"]}))

    before, found, after = use(cast, work)
    assert (before["events"], after["events"], len(found["events"])) == ([], [], 1)


def test_rules_and_codes_are_explained_as_tools_and_as_resources(cast: RequestCast) -> None:
    async def work(client: Client) -> None:
        rule = answered(await client.call_tool("explain", {"name": "bluesky.text.max_graphemes"}))
        assert rule["limit"] == 300
        near = refused(await client.call_tool("explain", {"name": "bluesky.text.max_grapheme"}))
        assert "bluesky.text.max_graphemes" in near["remediation"]
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template.partition("{")[0] for template in templates] == [
            "socialpub://rules/",
            "socialpub://errors/",
            "socialpub://platforms/",
        ]
        for address, field in (
            ("socialpub://rules/bluesky.text.max_graphemes", "rule"),
            ("socialpub://errors/not_found", "code"),
            ("socialpub://platforms/bluesky", "platform"),
        ):
            (content,) = (await client.read_resource(address)).contents
            assert json.loads(content.text)[field] == address.rpartition("/")[2]
        for address in ("socialpub://rules/x", "socialpub://platforms/x", "socialpub://x/y", "file:///etc/passwd"):
            with pytest.raises(MCPError):
                await client.read_resource(address)

    use(cast, work)


def test_files_are_uploaded_from_the_media_folder_alone(cast: RequestCast, tmp_path: Path) -> None:
    root = tmp_path / "media"
    root.mkdir()
    (root / "door.png").write_bytes(make_picture())
    (tmp_path / "secret.png").write_bytes(make_picture())
    (root / "link.png").symlink_to(tmp_path / "secret.png")

    async def work(client: Client) -> None:
        for path in ("../secret.png", str(tmp_path / "secret.png"), "link.png", "none.png", ".", "a\0b"):
            assert refused(await client.call_tool("upload_media", {"path": path}))["rule"] == "path"
        made = answered(await client.call_tool("upload_media", {"path": "door.png", "alt": "A door"}))
        media = [{"id": made["id"], "alt": "A green door"}]
        checked = answered(
            await client.call_tool("check_post", {"to": [cast.alice.bluesky], "text": "With a door", "media": media})
        )
        answered(await client.call_tool("publish_post", {"plan": checked["plan"]}))

    use(cast, work, settings=ServerSettings(media_root=root))
    (post,) = [entry for entry in cast.server.lab.lab.ledger.posts() if entry.text == "With a door"]
    assert post.media
    for media in ([{"id": "med_none"}], [{"id": "med_" + "0" * 22}]):
        result = call(cast, "check_post", {"to": [cast.alice.bluesky], "text": "x", "media": media})
        assert result.is_error or not result.structured_content["valid"]  # never dropped


def test_files_of_the_web_come_from_public_addresses_alone(cast: RequestCast) -> None:
    resolved = list[str]()

    async def resolve(host: str, _: int) -> list[str]:
        resolved.append(host)
        if host == "unknown.example":
            raise OSError("unknown")
        return {"mixed.example": ["93.184.216.34", "10.0.0.1"], "none.example": []}.get(host, [host])

    private = ("127.0.0.1", "10.1.2.3", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1")
    hosts = (*private, "mixed.example", "none.example", "unknown.example")
    schemes = (
        "http://example.org/a.png",
        "file:///etc/passwd",
        "https://user@example.org/",
        "https:///a",
        "https://a:b/",
        "https://10.0.0.1/\x01",
    )

    async def work(client: Client) -> None:
        for url in (*(f"https://{host}/a.png" for host in hosts), *schemes):
            assert refused(await client.call_tool("upload_media", {"url": url}))["rule"] == "url", url
        for arguments in ({}, {"path": "a.png", "url": "https://example.org/a.png"}):
            assert refused(await client.call_tool("upload_media", arguments))["rule"] == "path"

    use(cast, work, settings=ServerSettings(files=RemoteFiles(resolve)))
    assert set(resolved) == set(hosts)
    planning = cast.server.limited(cast.alice, scopes=PLANNING)
    files = ServerSettings(files=RemoteFiles(resolve))
    error = refused(call(cast, "upload_media", {"url": "https://later.example/"}, person=planning, settings=files))
    assert (error["rule"], "later.example" in resolved) == ("api_key.scope", False)


def test_a_host_that_no_name_server_can_be_asked_for_is_refused(cast: RequestCast) -> None:
    for host in ("a..example", f"{'x' * 64}.example", "a\x01b"):
        assert refused(call(cast, "upload_media", {"url": f"https://{host}/a.png"}))["rule"] == "url"


def test_a_file_of_the_web_is_uploaded_from_the_address_that_was_checked(cast: RequestCast, tmp_path: Path) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    with https_files({"/door.png": make_picture()}, "files.example", tmp_path) as (port, tls):
        settings = ServerSettings(files=RemoteFiles(resolve, lambda address: True, tls))

        async def work(client: Client) -> tuple[Any, Any, Any]:
            return (
                await client.call_tool(
                    "upload_media", {"url": f"https://files.example:{port}/door.png", "alt": "Door"}
                ),
                await client.call_tool("upload_media", {"url": f"https://files.example:{port}/none.png"}),
                await client.call_tool("upload_media", {"url": f"https://other.example:{port}/door.png"}),
            )

        made, missing, other = use(cast, work, settings=settings)
    assert {name: answered(made)[name] for name in ("kind", "width", "alt")} == {
        "kind": "image",
        "width": 8,
        "alt": "Door",
    }
    assert "404" in refused(missing)["message"]
    assert "ConnectError" in refused(other)["message"]  # the certificate is not this host's
