"""Growing and shrinking thread pool, with stacks large enough for deep recursion."""

from __future__ import annotations

import functools
import gc
import queue
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator

import pytest

from socialpub.base.concurrency.thread_pool import STACK_BYTES, ElasticThreadPool
from tests.support.soak.soak_world import wait_for

MANY = 200
DEEP = """
import functools, json, threading
from pydantic import BaseModel
from socialpub.base.observability import redaction
from socialpub.base.concurrency.thread_pool import ElasticThreadPool

class Nested(BaseModel):
    inner: "Nested | None" = None

class Endless:
    def __repr__(self): return f"{self!r}"

def sorts(depth): return sorted([1], key=lambda _: sorts(depth + 1))
def maps(depth): return list(map(maps, [depth]))
def partly(depth): return functools.partial(partly, depth)()

def nested():
    value = {}
    for _ in range(5000): value = {"inner": value}
    return value

answers = ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000]
allowed = [lambda: json.loads("[" * 900 + "]" * 900), lambda: redaction.redact_json(json.loads("[" * 300 + "]" * 300))]
endless = [lambda text=text: json.loads(text) for text in answers]
endless += [lambda: json.dumps(nested()), lambda: redaction.redact_json(nested())]
endless += [lambda: Nested.model_validate(nested())]
endless += [lambda: sorts(0), lambda: maps(0), lambda: partly(0), lambda: repr(Endless())]
crew, over, told = ElasticThreadPool("deep"), threading.Event(), []

def work():
    for run in allowed:
        run()
        told.append("ended")
    for run in endless:
        try: run()
        except (RecursionError, ValueError) as error: told.append(type(error).__name__)
    over.set()

crew.run(work)
assert over.wait(60)
crew.close(wait=True)
print(len(told) - len(allowed), "of", len(endless), told)
"""


@pytest.fixture
def crew() -> Iterator[ElasticThreadPool]:
    made = ElasticThreadPool("tested", idle_seconds=600)
    yield made
    made.close(wait=True)


def together(crew: ElasticThreadPool, count: int) -> set[int]:
    """So many works under way at once; the threads that did them."""
    met, idents = threading.Barrier(count + 1), set[int]()

    def work() -> None:
        idents.add(threading.get_ident())
        met.wait(30)

    for _ in range(count):
        crew.run(work)
    met.wait(30)
    return idents


def idle(crew: ElasticThreadPool) -> int:
    return len(crew._idle)


def test_each_work_of_many_at_once_has_its_thread_and_those_serve_again(crew: ElasticThreadPool) -> None:
    assert crew.threads == 0
    first = together(crew, MANY)
    assert len(first) == MANY
    assert wait_for(lambda: idle(crew) == MANY, 30)
    assert together(crew, MANY) == first
    assert crew.threads == MANY


def test_whoever_was_idle_last_works_next(crew: ElasticThreadPool) -> None:
    together(crew, 8)
    assert wait_for(lambda: idle(crew) == 8, 30)
    served = set()
    for _ in range(20):
        served |= together(crew, 1)
        assert wait_for(lambda: idle(crew) == 8, 30)
    assert len(served) == 1


def test_who_has_been_idle_ends() -> None:
    ended = threading.Semaphore(0)
    crew = ElasticThreadPool("tested", ended.release, idle_seconds=0.05)
    together(crew, MANY)
    for _ in range(MANY):
        assert ended.acquire(timeout=30)
    assert crew.threads == 0
    assert len(together(crew, 1)) == 1
    crew.close(wait=True)


def test_work_that_fails_leaves_its_thread(crew: ElasticThreadPool, caplog: pytest.LogCaptureFixture) -> None:
    crew.run(lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    assert wait_for(lambda: idle(crew) == 1, 30)
    assert len(together(crew, 1)) == crew.threads == 1
    assert "ZeroDivisionError" in caplog.text


def test_where_no_thread_can_be_had_those_that_are_there_do_the_work(
    crew: ElasticThreadPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, done = threading.Event(), threading.Semaphore(0)
    crew.run(lambda: bool(go_on.wait(30)) and None)

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refused)
        for _ in range(3):
            crew.run(done.release)
        with pytest.raises(RuntimeError):
            ElasticThreadPool("alone").run(done.release)
    assert not done.acquire(blocking=False)
    go_on.set()
    for _ in range(3):
        assert done.acquire(timeout=30)
    assert crew.threads == 1


def test_only_threads_of_a_crew_have_its_stack(crew: ElasticThreadPool) -> None:
    before = threading.stack_size()
    together(crew, 4)
    assert threading.stack_size() == before != STACK_BYTES


def test_no_answer_is_so_deep_that_it_ends_the_process() -> None:
    ended = subprocess.run([sys.executable, "-c", DEEP], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, (ended.returncode, ended.stderr[-2000:])
    assert ended.stdout.startswith("9 of 9"), ended.stdout


class _Payload:
    """What a task holds; a plain object has no weak references."""


@pytest.mark.parametrize("number", [1, 2], ids=["first", "later"])
def test_an_idle_thread_holds_nothing_of_its_tasks(number: int) -> None:
    """The first task of a thread was an argument of it, which `threading` keeps until the thread ends."""
    crew, payloads, ended = ElasticThreadPool("idle"), list[weakref.ref[_Payload]](), queue.SimpleQueue[None]()

    def work(payload: _Payload) -> None:
        payloads.append(weakref.ref(payload))
        ended.put(None)

    gc.disable()
    try:
        for _ in range(number):
            crew.run(functools.partial(work, _Payload()))
            ended.get(timeout=60)
            assert wait_for(lambda: bool(crew._idle), 60)
        assert wait_for(lambda: [payload() for payload in payloads] == [None] * number, 60)
        assert crew.threads == 1
    finally:
        gc.enable()
        crew.close(wait=True)
