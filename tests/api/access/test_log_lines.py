"""Server log: one line per post outcome and per act, without secrets."""

from __future__ import annotations

import logging
import re

import httpx
import pytest
from sanic.exceptions import RequestCancelled

from socialpub.domain.identity import users
from socialpub.store.schema.models import Account
from socialpub.web.server import ServerProtocol
from tests.support.app_server import AppServer
from tests.support.openapi_judge import sign_in
from tests.support.post_outcomes import lost
from tests.support.request_cast import RequestCast, inline_item, make_picture
from tests.support.sign_in import EMAIL, PASSWORD, csrf_of
from tests.support.soak.soak_world import wait_for


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "socialpub")


def lines(caplog: pytest.LogCaptureFixture, logger: str, part: str) -> list[str]:
    """What a logger said that holds a text."""
    said = [record.getMessage() for record in caplog.records if record.name == logger]
    return [line for line in said if part in line]


# --- Acts ------------------------------------------------------------------------------------------------------------


def test_an_act_that_is_done_names_its_post_its_key_and_no_refusal(
    world: RequestCast, caplog: pytest.LogCaptureFixture
) -> None:
    post = world.scheduled()
    world.alice.api.delete(f"/v1/posts/{post}", headers={"X-Request-Id": "done"})
    (line,) = lines(caplog, "socialpub.web", "done ")
    shown = rf"done DELETE '/v1/posts/{post}' 200 \d+ms by key {world.alice.key_id} from 127\.0\.0\.1"
    assert re.fullmatch(shown, line)


def test_a_request_whose_client_has_gone_leaves_one_line(
    world: RequestCast, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(line: ServerProtocol, data: bytes) -> None:
        raise RequestCancelled

    monkeypatch.setattr(ServerProtocol, "send", gone)
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(f"{world.server.url}/docs", headers={"X-Request-Id": "the-gone"}, trust_env=False)
    assert len(lines(caplog, "socialpub.web", "the-gone ")) == 1


def test_a_health_check_is_logged_unless_it_succeeds(world: RequestCast, caplog: pytest.LogCaptureFixture) -> None:
    for method, number in (("GET", "ok"), ("POST", "wrong")):
        for path in ("/healthz", "/readyz"):
            headers = {"X-Request-Id": f"{number}{path[1:]}"}
            httpx.request(method, f"{world.server.url}{path}", headers=headers, trust_env=False)
    assert not lines(caplog, "socialpub.web", "okhealthz ") + lines(caplog, "socialpub.web", "okreadyz ")
    assert len(lines(caplog, "socialpub.web", "wronghealthz ") + lines(caplog, "socialpub.web", "wrongreadyz ")) == 2


def test_a_refusal_names_its_rule_and_no_word_of_the_callers(
    world: RequestCast, caplog: pytest.LogCaptureFixture
) -> None:
    world.alice.api.publish({"targets": [], "text": "x"})
    world.alice.api.publish({"hunter2-is-my-password": 1, "targets": [world.target()], "text": "x"})
    ruled, unruled = lines(caplog, "socialpub.web", "POST '/v1/posts' 400")
    assert ruled.endswith(": validation_failed targets.required")
    assert unruled.endswith(": validation_failed")
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("kind", ["setup", "invited", "approve"])
def test_a_link_stays_secret_where_its_address_is_mistaken(
    server: AppServer, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    token = users.generate_link_token(server.service)
    for method, path in (("OPTIONS", ""), ("PUT", ""), ("GET", "/"), ("GET", "/more")):
        assert server.api().request(method, f"/{kind}/{token}{path}").status_code in (204, 404, 405)
    assert len(lines(caplog, "socialpub.web", f"'/{kind}/<token>")) == 4
    assert token not in caplog.text


def test_signing_in_names_the_user_and_the_set_up_link_stays_secret(
    server: AppServer, caplog: pytest.LogCaptureFixture
) -> None:
    token = users.create_setup_token(server.service)
    assert token is not None
    api = server.api()
    form = {"organization": "Acme", "email": EMAIL, "password": "short"}
    form["csrf_token"] = csrf_of(api.get(f"/setup/{token}"))
    again = csrf_of(api.post(f"/setup/{token}", data=form))
    api.post(f"/setup/{token}", data=form | {"password": PASSWORD, "csrf_token": again})
    refused, made = lines(caplog, "socialpub.web", "POST '/setup/<token:str>'")
    assert " 400 " in refused
    assert re.search(r" 303 \d+ms by user [0-9a-f-]{36} from 127\.0\.0\.1$", made)
    assert token not in caplog.text
    page = server.api()
    fields = {"email": EMAIL, "password": PASSWORD, "csrf_token": csrf_of(page.get("/login"))}
    page.post("/login", data=fields)
    (line,) = lines(caplog, "socialpub.web", "POST '/login'")
    assert line.split(" by ")[1] == made.split(" by ")[1]
    assert PASSWORD not in caplog.text


# --- Outcomes --------------------------------------------------------------------------------------------------------


def outcome(caplog: pytest.LogCaptureFixture, post: str) -> str:
    """The one line of a post's outcome, after its id."""
    (line,) = told(caplog, post)
    return line.removeprefix(f"post {post} ")


def told(caplog: pytest.LogCaptureFixture, post: str, count: int = 1) -> list[str]:
    """Every line of a post's outcomes, once there are `count`: they are written just after the commit."""
    assert wait_for(lambda: len(lines(caplog, "socialpub.posts", f"post {post} ")) >= count, 30)
    return lines(caplog, "socialpub.posts", f"post {post} ")


def test_a_published_post_leaves_one_line(world: RequestCast, caplog: pytest.LogCaptureFixture) -> None:
    answer = world.alice.api.post("/v1/posts", json=world.body(), headers={"X-Request-Id": "the-batch"}).json()
    line = outcome(caplog, answer["results"][0]["postId"])
    assert (
        re.sub(r"due \S+Z, after \d+ ms$", "…", line)
        == f"published: account {world.alice.bluesky}, bluesky, attempt 1, batch {answer['id']}, request the-batch, …"
    )
    assert "hello" not in caplog.text


def test_a_rejected_post_leaves_one_line_with_its_rule(world: RequestCast, caplog: pytest.LogCaptureFixture) -> None:
    mine = Account.id == world.alice.bluesky
    world.server.service.write(lambda tx: Account.update(status="revoked").where(mine).execute()).result()
    (result,) = world.post().json()["results"]
    line = outcome(caplog, result["postId"])
    assert line.startswith("rejected: account ")
    assert line.endswith(": platform_auth_failed account.reconnect_required")


def test_a_canceled_post_leaves_one_line_with_the_request_that_did_it(
    world: RequestCast, caplog: pytest.LogCaptureFixture
) -> None:
    post = world.scheduled()
    world.alice.api.delete(f"/v1/posts/{post}", headers={"X-Request-Id": "the-cancel"})
    assert re.fullmatch(r"canceled: account .*, request the-cancel, due .*", outcome(caplog, post))


def test_disconnecting_leaves_a_line_for_each_post(world: RequestCast, caplog: pytest.LogCaptureFixture) -> None:
    posts = [world.scheduled(text=str(number)) for number in range(3)]
    browser = world.server.api(**sign_in(world.server, world.alice))
    browser.delete(f"/v1/accounts/{world.alice.bluesky}")
    for post in posts:
        world.server.wait(post, "canceled")
        assert outcome(caplog, post).startswith("canceled: ")


def test_an_overdue_post_leaves_one_line(world: RequestCast, caplog: pytest.LogCaptureFixture) -> None:
    post = world.scheduled()
    world.server.clock.skip(48 * 3600)
    world.server.restart(world.alice)
    world.server.wait(post, "failed")
    assert outcome(caplog, post).endswith(": internal_error schedule.overdue")


def test_each_attempt_that_fails_leaves_one_line_and_so_does_the_end(
    world: RequestCast, caplog: pytest.LogCaptureFixture
) -> None:
    world.server.lab.lab.faults.add([{"fault": "status:503", "platform": "bluesky", "operation": "*uploadBlob"}])
    post = world.scheduled(media=[inline_item(make_picture())])
    world.server.skip(3601)
    world.server.wait(post, "validated", seconds=60)
    (line,) = told(caplog, post)
    assert " failed, will be retried: account " in line
    assert ": platform_unavailable" in line
    world.server.lab.lab.faults.clear()
    world.server.skip(600)
    world.server.wait(post, "published", seconds=60)
    first, last = told(caplog, post, 2)
    assert (first, "published: " in last, "attempt 2" in last) == (line, True, True)


@pytest.mark.parametrize(("published", "end"), [(True, "published: "), (False, "failed: ")])
def test_what_a_person_settles_is_an_outcome_too(
    published: bool, end: str, world: RequestCast, caplog: pytest.LogCaptureFixture
) -> None:
    post = lost(world, world.alice)
    asked = {"X-Request-Id": "the-settling"}
    world.alice.api.post(f"/v1/posts/{post}/settle", json={"published": published}, headers=asked)
    line = outcome(caplog, post)
    assert line.startswith(end)
    assert ", request the-settling" in line


def test_what_is_no_outcome_leaves_no_line_of_one(world: RequestCast, caplog: pytest.LogCaptureFixture) -> None:
    post = world.scheduled()
    world.alice.api.patch(f"/v1/posts/{post}", json={"scheduledAt": world.soon(7200)})
    assert lines(caplog, "socialpub.posts", post) == []
