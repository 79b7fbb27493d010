"""Methods for both clients: steps that `Socialpub` runs and `AsyncSocialpub` awaits."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, cast, overload

from socialpub_client import errors, models
from socialpub_client.drivers import AsyncDriver, SyncDriver
from socialpub_client.engine import DELAY_MAX, Answer, Engine, read, read_versioned, segment
from socialpub_client.error_kinds import classify
from socialpub_client.messages import Sleep, Steps

if TYPE_CHECKING:
    from socialpub_client.results import AsyncBatch, Batch

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item", covariant=True)
Json = Mapping[str, Any]
EARLY = 1.0  # seconds from one request that is to wait to the next one
FINAL = {"published", "failed", "rejected", "canceled"}


class Resource:
    """Part of the API: an engine that knows the requests, and a driver that performs them."""

    def __init__(self, engine: Engine, driver: SyncDriver | AsyncDriver) -> None:
        self.engine, self.driver = engine, driver

    @property
    def _scope(self) -> dict[str, str | None]:
        """The parameter that names the client's profile."""
        return {"profileId": self.engine.profile}

    def _write(
        self, method: str, path: str, body: Mapping[str, Any] | None, if_match: str | None, key: str | None
    ) -> Steps[Answer]:
        """Change what the path names, in the client's profile. `key`: the idempotency key."""
        return (
            yield from self.engine.request(
                method, path, params=self._scope, json=body, if_match=if_match, idempotency_key=key
            )
        )


class Synchronous:
    """Mark of the resources of `Socialpub`."""


class Asynchronous:
    """Mark of the resources of `AsyncSocialpub`."""


class operation(Generic[P, T]):
    """Method that returns, or is awaited for, the result of its steps."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self._steps = steps
        functools.update_wrapper(cast(Callable[..., Any], self), steps)

    @overload
    def __get__(self, resource: Synchronous, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, resource: Asynchronous, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, resource: None, owner: type) -> Self: ...
    def __get__(self, resource: Any, owner: type) -> Any:
        return self if resource is None else _bind(resource, self._steps)


class batch_operation(Generic[P]):
    """Method whose result is a batch that can be waited for."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[models.BatchData]]) -> None:
        self._steps = steps
        functools.update_wrapper(cast(Callable[..., Any], self), steps)

    @overload
    def __get__(self, resource: Synchronous, owner: type) -> Callable[P, Batch]: ...
    @overload
    def __get__(self, resource: Asynchronous, owner: type) -> Callable[P, Coroutine[Any, Any, AsyncBatch]]: ...
    @overload
    def __get__(self, resource: None, owner: type) -> Self: ...
    def __get__(self, resource: Any, owner: type) -> Any:
        if resource is None:
            return self

        def steps(resource: Resource, *args: P.args, **kwargs: P.kwargs) -> Steps[Any]:
            from socialpub_client import results  # makes the classes of answers, as this answer does

            data = yield from self._steps(resource, *args, **kwargs)
            kind = results.Batch if _is_synchronous(resource) else results.AsyncBatch
            return kind.bind(data, resource.engine, resource.driver)

        return _bind(resource, functools.wraps(self._steps)(steps))


def _is_synchronous(resource: object) -> bool:
    return isinstance(resource, Synchronous)


def _bind(resource: Resource, steps: Callable[..., Steps[Any]]) -> Callable[..., Any]:
    @functools.wraps(steps)
    def call(*args: Any, **kwargs: Any) -> Any:
        return resource.driver.run(steps(resource, *args, **kwargs))

    return call


# --- Batches -------------------------------------------------------------------------------------------------------


def wait_for_batch(
    engine: Engine, batch: models.BatchData, timeout: float, begun: float | None = None
) -> Steps[models.BatchData]:
    """Return the batch once every target is final. Raises WaitTimedOut with its last state.

    The batch is accepted, so no other error is raised: most say that nothing was. A server that restarts is asked
    again. `begun`: when the timeout began, by the runtime's clock; default: now.
    """
    end = (engine.runtime.monotonic() if begun is None else begun) + timeout
    while not is_final(batch):
        left = end - engine.runtime.monotonic()
        if left <= 0:
            raise errors.WaitTimedOut(batch, timeout)
        asked = engine.runtime.monotonic()
        try:
            batch = yield from read_batch(engine, batch.id, wait=max(1, min(left, 25)))
            if not is_final(batch):
                yield from pause_if_early(engine, asked)
        except errors.SocialpubError as error:
            if not classify(error).passes:
                raise errors.WaitTimedOut(batch, timeout, error.message) from error
            yield Sleep(min(left, max(error.retry_after or 0, engine.runtime.random() * DELAY_MAX)))
    return batch


def pause_if_early(engine: Engine, asked: float) -> Steps[None]:
    """Pause where an answer that was to wait came at once: a proxy may drop `Prefer`.

    `asked`: the time of the request, by the runtime's clock.
    """
    early = EARLY - (engine.runtime.monotonic() - asked)
    if early > 0:
        yield Sleep(early)


def is_final(batch: models.BatchData) -> bool:
    """Return whether no target of a batch will change by itself, pieces of threads included."""
    return all(
        result.status in FINAL and all(piece.status in FINAL for piece in result.thread or ())
        for result in batch.results
    )


def read_batch(engine: Engine, id: str, *, wait: float | None = None) -> Steps[models.BatchData]:
    """Read a batch; `wait`: the seconds that the answer may wait for its end."""
    params = {"profileId": engine.profile}
    answer = yield from engine.request("GET", f"/v1/batches/{segment(id)}", params=params, wait=wait or None)
    return read_versioned(models.BatchData.parse, answer)


# --- Lists ---------------------------------------------------------------------------------------------------------


class Feed(Protocol[Item]):
    """Sequence that is read in parts."""

    @property
    def next_cursor(self) -> str | None:
        """The place after the part that was read last."""
        ...

    def advance(self) -> Steps[Sequence[Item] | None]:
        """Read the next part; None at the end."""
        ...


class PageFeed(Generic[T]):
    """Pages of a list, one after another, by the cursor of each."""

    def __init__(self, engine: Engine, path: str, parse: Callable[[Json], T], params: Mapping[str, Any]) -> None:
        self._engine, self._path, self._parse, self._params = engine, path, parse, params
        self._ended = False
        self.next_cursor: str | None = params.get("cursor")

    def advance(self) -> Steps[Sequence[T] | None]:
        """Read the next page; None at the end."""
        if self._ended:
            return None
        params = {**self._params, "cursor": self.next_cursor}
        answer = yield from self._engine.request("GET", self._path, params=params)
        items, cursor = read(self._parse_page, answer)
        self.next_cursor, self._ended = cursor, cursor is None
        return items

    def _parse_page(self, page: Json) -> tuple[tuple[T, ...], str | None]:
        cursor = page.get("nextCursor")
        if cursor is not None and cursor == self.next_cursor:  # of a cache, say, that leaves out the query
            raise ValueError("the next page is this one again")
        return tuple(self._parse(each) for each in page["data"]), cursor


class Pages(Generic[T]):
    """Items of a list. Iterating reads page after page, from the first."""

    def __init__(self, start: Callable[[], Feed[T]], driver: SyncDriver) -> None:
        self._start, self._driver, self._current = start, driver, start()

    @property
    def next_cursor(self) -> str | None:
        """The cursor of the page after that which `page` returned last; None after the last page."""
        return self._current.next_cursor

    def page(self) -> tuple[T, ...]:
        """Read the next page; empty after the last one."""
        items = self._driver.run(self._current.advance())
        return tuple(items or ())

    def __iter__(self) -> Iterator[T]:
        feed = self._start()
        while (items := self._driver.run(feed.advance())) is not None:
            yield from items


class AsyncPages(Generic[T]):
    """Items of a list. Iterating reads page after page, from the first."""

    def __init__(self, start: Callable[[], Feed[T]], driver: AsyncDriver) -> None:
        self._start, self._driver, self._current = start, driver, start()

    @property
    def next_cursor(self) -> str | None:
        """The cursor of the page after that which `page` returned last; None after the last page."""
        return self._current.next_cursor

    async def page(self) -> tuple[T, ...]:
        """Read the next page; empty after the last one."""
        items = await self._driver.run(self._current.advance())
        return tuple(items or ())

    async def __aiter__(self) -> AsyncIterator[T]:
        feed = self._start()
        while (items := await self._driver.run(feed.advance())) is not None:
            for item in items:
                yield item


class listing(Generic[P, T]):
    """Method that returns the pages of a list."""

    def __init__(self, feed: Callable[Concatenate[Any, P], Feed[T]]) -> None:
        self._feed = feed
        functools.update_wrapper(cast(Callable[..., Any], self), feed)

    @overload
    def __get__(self, resource: Synchronous, owner: type) -> Callable[P, Pages[T]]: ...
    @overload
    def __get__(self, resource: Asynchronous, owner: type) -> Callable[P, AsyncPages[T]]: ...
    @overload
    def __get__(self, resource: None, owner: type) -> Self: ...
    def __get__(self, resource: Any, owner: type) -> Any:
        if resource is None:
            return self
        kind: Any = Pages if _is_synchronous(resource) else AsyncPages

        @functools.wraps(self._feed)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return kind(functools.partial(self._feed, resource, *args, **kwargs), resource.driver)

        return call


class streaming(Generic[P, T]):
    """Method that returns an iterator without end."""

    def __init__(self, feed: Callable[Concatenate[Any, P], Feed[T]]) -> None:
        self._feed = feed
        functools.update_wrapper(cast(Callable[..., Any], self), feed)

    @overload
    def __get__(self, resource: Synchronous, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, resource: Asynchronous, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    @overload
    def __get__(self, resource: None, owner: type) -> Self: ...
    def __get__(self, resource: Any, owner: type) -> Any:
        if resource is None:
            return self
        is_synchronous = _is_synchronous(resource)

        @functools.wraps(self._feed)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            start = functools.partial(self._feed, resource, *args, **kwargs)
            driver: Any = resource.driver
            return iter(Pages(start, driver)) if is_synchronous else aiter(AsyncPages(start, driver))

        return call
