"""Traces of requests and attempts, sent to a collector only when configured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from socialpub.base.config import ConfigError, Settings
from socialpub.base.observability import tracing
from socialpub.commands.serve import export_traces
from tests.support.app_server import AppServer, Person, format_instant
from tests.support.soak.soak_world import wait_for
from tests.support.webhook_receiver import running_receiver

GIVEN = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = {"traceparent": f"00-{GIVEN}-00f067aa0ba902b7-01"}


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    tracing.start(exporter, "socialpub", 1.0, "0")
    yield exporter
    tracing.stop()


def publish(person: Person, headers: Mapping[str, str] | None = None, **more: Any) -> str:
    target = {"accountId": person.bluesky}
    answer = person.api.post("/v1/posts", json={"text": "Hello", "targets": [target], **more}, headers=headers or {})
    assert answer.is_success, answer.text
    return str(answer.json()["results"][0]["postId"])


def ended(exporter: InMemorySpanExporter, *names: str) -> dict[str, list[ReadableSpan]]:
    """What was sent, by its names; once there is what has these names. An answer may go out before its attempt ends."""

    def sent() -> dict[str, list[ReadableSpan]]:
        assert tracing._tracer
        tracing._tracer.provider.force_flush()
        found: dict[str, list[ReadableSpan]] = {}
        for span in exporter.get_finished_spans():
            found.setdefault(span.name, []).append(span)
        return found

    assert wait_for(lambda: sent().keys() >= {*names}, 60)
    return sent()


def trace(span: ReadableSpan) -> str:
    return f"{span.context.trace_id:032x}"


def test_a_request_its_attempt_and_the_calls_are_one_trace(
    server: AppServer, alice: Person, exporter: InMemorySpanExporter
) -> None:
    post = publish(alice, TRACEPARENT)
    spans = ended(exporter, "POST /v1/posts", "publish")
    (request,), (attempt,) = spans["POST /v1/posts"], spans["publish"]
    assert attempt.parent == request.context
    assert {trace(span) for span in (request, attempt, *spans["POST"])} == {GIVEN}
    assert {span.parent and span.parent.span_id for span in spans["POST"]} == {attempt.context.span_id}
    assert attempt.attributes == {
        "socialpub.post": post,
        "socialpub.platform": "bluesky",
        "socialpub.account": alice.bluesky,
        "socialpub.attempt": 1,
        "socialpub.request": request.attributes["socialpub.request"],  # type: ignore[index]
    }
    assert {span.attributes["http.response.status_code"] for span in (request, *spans["POST"])} == {200}  # type: ignore[index]


def test_no_call_to_a_platform_has_a_trace(server: AppServer, alice: Person, exporter: InMemorySpanExporter) -> None:
    publish(alice, TRACEPARENT)
    calls = server.lab.lab.calls
    assert calls
    assert not [call for call in calls if {"traceparent", "tracestate"} & {name.lower() for name in call.headers}]


def test_no_span_has_a_text_a_key_or_an_address(
    server: AppServer, alice: Person, exporter: InMemorySpanExporter
) -> None:
    alice.api.get("/v1/posts?q=secret-words")
    alice.api.get(f"/v1/posts/{publish(alice)}")
    said = " ".join(span.to_json() for spans in ended(exporter, "publish").values() for span in spans)
    for secret in ("Hello", "secret-words", alice.key, *server.watch.secrets, "/xrpc"):
        assert secret not in said


def test_an_error_names_its_trace(server: AppServer, alice: Person, exporter: InMemorySpanExporter) -> None:
    given = alice.api.get("/v1/posts/none", headers=TRACEPARENT).json()["error"]["traceId"]
    own = alice.api.get("/v1/posts/none").json()["error"]["traceId"]
    assert (given, len(own)) == (GIVEN, 32)
    spans = ended(exporter)["GET /v1/posts/<post_id:str>"]
    assert [trace(span) for span in spans] == [given, own]
    assert {span.attributes["socialpub.error"] for span in spans} == {"not_found"}  # type: ignore[index]


def test_an_attempt_of_a_scheduled_post_begins_a_trace(
    server: AppServer, alice: Person, exporter: InMemorySpanExporter
) -> None:
    post = publish(alice, scheduledAt=format_instant(server.clock.now_ms() + 60_000))
    server.skip(61)
    assert wait_for(lambda: server.rows(id=post)[0]["status"] == "published", 60)
    spans = ended(exporter, "publish")
    (attempt,) = spans["publish"]
    assert attempt.parent is None
    (request,) = spans["POST /v1/posts"]
    assert attempt.attributes["socialpub.request"] == request.attributes["socialpub.request"]  # type: ignore[index]


def test_a_share_of_the_traces_is_sent(server: AppServer, alice: Person) -> None:
    exporter = InMemorySpanExporter()
    tracing.start(exporter, "socialpub", 0.0, "0")
    publish(alice)
    publish(alice, TRACEPARENT)  # which asks for it
    spans = ended(exporter, "publish")
    tracing.stop()
    assert {trace(span) for found in spans.values() for span in found} == {GIVEN}


def test_a_collector_gets_them(server: AppServer, alice: Person) -> None:
    with running_receiver() as sink:
        with export_traces(Settings(tracing={"endpoint": f"{sink.url}/v1/traces", "service_name": "ours"})):  # type: ignore[arg-type]
            publish(alice)
        (got,) = sink.got
    assert got.headers["content-type"] == "application/x-protobuf"
    assert b"ours" in got.body


@pytest.mark.slow
def test_a_collector_that_is_away_holds_nobody_up(server: AppServer, alice: Person) -> None:
    with export_traces(Settings(tracing={"endpoint": "http://127.0.0.1:9/v1/traces", "ratio": 1})):  # type: ignore[arg-type]
        publish(alice)


def test_without_the_packages_a_collector_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with (
        pytest.raises(ConfigError, match=r"pip install \"socialpub\[tracing\]\""),
        export_traces(Settings(tracing={"endpoint": "http://127.0.0.1:4318/v1/traces"})),  # type: ignore[arg-type]
    ):
        pytest.fail("there are traces")


@pytest.mark.slow
def test_without_a_collector_nothing_of_it_is_read(server: AppServer, alice: Person) -> None:
    publish(alice)
    assert tracing.start_request("x", "GET", {}) is None
    code = (
        "import sys\nfrom socialpub.base.config import Settings\nfrom socialpub.commands.serve import export_traces\n"
        "with export_traces(Settings()): print(sum(name.startswith('opentelemetry') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "0\n"
