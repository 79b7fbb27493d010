"""Scripted faults of the simulator, seen by an HTTP client, and their effect on the post."""

from __future__ import annotations

import errno
import json
import zlib
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from socialpub.simulator.dispatch import PRIVATE_URL
from socialpub.simulator.faults import Fault, FaultScript
from tests.support.bluesky_user import KEY, BlueskyUser, make_record
from tests.support.fixed_clock import NOON

PUT = "com.atproto.repo.putRecord"
PUT_URL = f"/xrpc/{PUT}"


def plan(alice: BlueskyUser, fault: str, **more: Any) -> None:
    alice.simulator.lab.faults.add([{"fault": fault, "operation": PUT, **more}])


def published(alice: BlueskyUser) -> int:
    return len(alice.simulator.lab.ledger.posts())


def body(alice: BlueskyUser) -> dict[str, Any]:
    return {"repo": alice.did, "collection": "app.bsky.feed.post", "rkey": KEY, "record": make_record()}


def test_without_a_fault_the_post_is_published_and_answered(alice: BlueskyUser) -> None:
    answer = alice.put()
    assert (answer.status_code, published(alice)) == (200, 1)
    assert answer.json()["uri"] == f"at://{alice.did}/app.bsky.feed.post/{KEY}"


def test_ok_shields_a_call_from_a_later_line(alice: BlueskyUser) -> None:
    plan(alice, "ok", times=1)
    plan(alice, "status:503")
    assert [alice.put().status_code, alice.put("other").status_code] == [200, 503]


@pytest.mark.matrix
@pytest.mark.parametrize(
    "fault, more, status, name, count",
    [
        ("status:500", {}, 500, "InternalServerError", 0),
        ("status:502", {}, 502, "UpstreamFailure", 0),
        ("status:400", {}, 400, "InvalidRequest", 0),
        ("status:400", {"body": {"error": "ExpiredToken", "message": "Token has expired"}}, 400, "ExpiredToken", 0),
        ("status:418", {}, 418, "Unknown", 0),
        ("status:503", {"effect": True}, 503, "NotEnoughResources", 1),
        ("error_after", {}, 500, "InternalServerError", 1),
    ],
)
def test_an_error_answer_is_the_platforms_own(
    alice: BlueskyUser, fault: str, more: dict[str, Any], status: int, name: str, count: int
) -> None:
    plan(alice, fault, **more)
    answer = alice.put()
    assert (answer.status_code, answer.json()["error"], published(alice)) == (status, name, count)


def test_a_429_tells_when_to_come_back(alice: BlueskyUser) -> None:
    plan(alice, "status:429", retryAfter=30)
    answer = alice.put()
    assert (answer.status_code, answer.json()) == (
        429,
        {"error": "RateLimitExceeded", "message": "Rate Limit Exceeded"},
    )
    headers = {name: answer.headers[name] for name in ("retry-after", "ratelimit-remaining", "ratelimit-reset")}
    assert headers == {"retry-after": "30", "ratelimit-remaining": "0", "ratelimit-reset": str(NOON // 1000 + 30)}


def test_an_error_answer_may_be_html(alice: BlueskyUser) -> None:
    plan(alice, "status:502", body="<h1>Bad gateway</h1>")
    answer = alice.put()
    assert (answer.status_code, answer.text) == (502, "<h1>Bad gateway</h1>")
    assert answer.headers["content-type"] == "text/html"


@pytest.mark.parametrize("fault, count", [("reset_before", 0), ("reset_after", 1)])
def test_a_reset_is_a_tcp_reset_without_an_answer(alice: BlueskyUser, fault: str, count: int) -> None:
    plan(alice, fault, times=1)
    with pytest.raises(httpx.ReadError) as caught:
        alice.put()
    assert f"[Errno {errno.ECONNRESET}]" in str(caught.value)
    assert published(alice) == count
    assert alice.put().status_code == 200  # the next call gets through
    assert published(alice) == 1


def test_a_delay_does_not_lose_the_effect_when_the_client_hangs_up(alice: BlueskyUser) -> None:
    plan(alice, "delay:4")
    with pytest.raises(httpx.ReadTimeout):
        alice.client.post(PUT_URL, json=body(alice), headers=alice.headers(), timeout=httpx.Timeout(60, read=0.05))
    assert published(alice) == 0
    assert alice.simulator.lab.ledger.wait(1, timeout=60)


def test_a_short_delay_is_answered(alice: BlueskyUser) -> None:
    plan(alice, "delay:0.01")
    assert (alice.put().status_code, published(alice)) == (200, 1)


def test_a_late_effect_comes_after_the_client_gave_up(alice: BlueskyUser) -> None:
    plan(alice, "late_effect:4")
    with pytest.raises(httpx.ReadTimeout):
        alice.client.post(PUT_URL, json=body(alice), headers=alice.headers(), timeout=httpx.Timeout(60, read=0.05))
    assert published(alice) == 0
    assert alice.simulator.lab.ledger.wait(1, timeout=60)
    assert alice.simulator.lab.calls[-1].status is None


def test_a_late_effect_does_not_come_after_a_reset(alice: BlueskyUser) -> None:
    plan(alice, "late_effect:4")
    with pytest.raises(httpx.ReadTimeout):
        alice.client.post(PUT_URL, json=body(alice), headers=alice.headers(), timeout=httpx.Timeout(60, read=0.05))
    alice.simulator.lab.reset()
    assert not alice.simulator.lab.ledger.wait(1, timeout=4.3)


def test_slow_sends_one_byte_and_makes_the_client_wait(alice: BlueskyUser) -> None:
    plan(alice, "slow")
    timeout = httpx.Timeout(60, read=0.5)
    with alice.client.stream("POST", PUT_URL, json=body(alice), headers=alice.headers(), timeout=timeout) as answer:
        received = answer.iter_raw()
        assert (answer.status_code, next(received)) == (200, b"{")
        with pytest.raises(httpx.ReadTimeout):
            next(received)
    assert published(alice) == 1


def test_endless_goes_on_until_the_client_hangs_up(alice: BlueskyUser) -> None:
    plan(alice, "endless", times=1)
    size = 0
    with alice.client.stream("POST", PUT_URL, json=body(alice), headers=alice.headers()) as answer:
        for part in answer.iter_raw():
            size += len(part)
            if size > 5_000_000:
                break
    assert (size > 5_000_000, published(alice)) == (True, 1)
    assert alice.put("the simulator still works").status_code == 200


def test_html_comes_with_status_200_and_nothing_is_published(alice: BlueskyUser) -> None:
    plan(alice, "html")
    answer = alice.put()
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.text.startswith("<!DOCTYPE html>")
    assert published(alice) == 0


def test_truncated_is_json_cut_short(alice: BlueskyUser) -> None:
    plan(alice, "truncated")
    answer = alice.put()
    assert answer.text.startswith('{"uri":"at://')
    with pytest.raises(json.JSONDecodeError):
        answer.json()
    assert (answer.status_code, published(alice)) == (200, 1)


def test_wrong_type_is_json_of_another_shape(alice: BlueskyUser) -> None:
    plan(alice, "wrong_type")
    answer = alice.put()
    assert (answer.status_code, answer.json(), published(alice)) == (200, ["unexpected"], 1)


def test_missing_id_leaves_the_rest_of_the_answer(alice: BlueskyUser) -> None:
    plan(alice, "missing_id")
    answer = alice.put()
    assert (answer.status_code, sorted(answer.json()), published(alice)) == (200, ["commit", "validationStatus"], 1)


def test_redirects_lead_to_themselves_or_to_a_private_address(alice: BlueskyUser) -> None:
    plan(alice, "redirect_self", times=1)
    plan(alice, "redirect_private", nth=2)
    to_itself, to_private = alice.put(), alice.put()
    assert (to_itself.status_code, to_itself.headers["location"]) == (301, str(to_itself.request.url))
    assert (to_private.status_code, to_private.headers["location"]) == (302, PRIVATE_URL)
    assert published(alice) == 0


def test_a_gzip_bomb_is_small_on_the_wire_and_large_when_opened(alice: BlueskyUser) -> None:
    plan(alice, "gzip_bomb")
    with alice.client.stream("POST", PUT_URL, json=body(alice), headers=alice.headers()) as answer:
        packed = b"".join(answer.iter_raw())
    assert (answer.headers["content-encoding"], len(packed) < 200_000, published(alice)) == ("gzip", True, 1)
    assert len(zlib.decompress(packed, wbits=31)) > 64 * 1024 * 1024


def test_whether_a_fault_takes_effect_can_be_chosen(alice: BlueskyUser) -> None:
    plan(alice, "truncated", effect=False)
    assert (alice.put().status_code, published(alice)) == (200, 0)


def test_other_operations_and_platforms_are_left_alone(alice: BlueskyUser) -> None:
    alice.simulator.lab.faults.add(
        [{"fault": "status:503", "operation": "com.atproto.server.*"}, {"fault": "status:503", "platform": "x"}]
    )
    assert alice.put().status_code == 200
    assert alice.refresh(alice.session["refreshJwt"]).status_code == 503


def test_latency_is_added_to_every_call(alice: BlueskyUser) -> None:
    alice.simulator.lab.configure(latencyMs=400)
    with pytest.raises(httpx.ReadTimeout):
        alice.client.get(f"/{alice.did}", timeout=httpx.Timeout(60, read=0.05))
    assert alice.client.get(f"/{alice.did}").status_code == 200


# --- The script, without a server -----------------------------------------------------------------------------------


def hits(count: int, *lines: dict[str, Any]) -> list[str | None]:
    """What is played at each of `count` calls."""
    script = FaultScript()
    script.add(lines)
    played = (script.next("bluesky", "op") for _ in range(count))
    return [None if fault is None else fault.fault for fault in played]


@pytest.mark.parametrize(
    "line, expected",
    [
        ({}, ["html", "html", "html", "html"]),
        ({"nth": 2}, [None, "html", None, None]),
        ({"times": 2}, ["html", "html", None, None]),
        ({"nth": 2, "times": 2}, [None, "html", "html", None]),
        ({"probability": 0}, [None, None, None, None]),
        ({"probability": 1, "times": 3}, ["html", "html", "html", None]),
        ({"operation": "other"}, [None, None, None, None]),
        ({"operation": "o*", "platform": "blue*"}, ["html", "html", "html", "html"]),
    ],
)
def test_a_line_hits_the_calls_that_it_names(line: dict[str, Any], expected: list[str | None]) -> None:
    assert hits(4, {"fault": "html", **line}) == expected


def test_lines_count_calls_even_while_another_line_is_played() -> None:
    assert hits(3, {"fault": "html", "nth": 1}, {"fault": "slow", "nth": 2}) == ["html", "slow", None]


@given(seed=st.integers(), probability=st.floats(0, 1))
def test_the_same_seed_draws_the_same_calls(seed: int, probability: float) -> None:
    line = {"fault": "html", "seed": seed, "probability": probability}
    assert hits(30, line) == hits(30, line)


def test_a_probability_is_met_in_the_long_run() -> None:
    played = hits(2000, {"fault": "html", "probability": 0.14})
    assert 0.11 < sum(fault is not None for fault in played) / len(played) < 0.17


@pytest.mark.parametrize(
    "line, complaint",
    [
        ({"fault": "explode"}, "there is no fault 'explode'"),
        ({"fault": "delay"}, "write delay:SECONDS"),
        ({"fault": "delay:x"}, "seconds are a number from 0 to 86400"),
        ({"fault": "status:99"}, "from 200 to 599"),
        ({"fault": "html:1"}, "html takes no value"),
        ({"fault": "html", "nth": 0}, "greater than or equal to 1"),
        ({"fault": "html", "probability": 2}, "less than or equal to 1"),
        ({"fault": "html", "often": 1}, "Extra inputs"),
    ],
)
def test_a_malformed_line_is_refused_and_nothing_is_added(line: dict[str, Any], complaint: str) -> None:
    script = FaultScript()
    with pytest.raises(ValidationError, match=complaint):
        script.add([Fault(fault="html"), line])
    assert script.body() == []
