"""The two clients: `Socialpub` with blocking calls, `AsyncSocialpub` for an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self

from socialpub_client import models
from socialpub_client.drivers import AsyncDriver, SyncDriver
from socialpub_client.engine import SYSTEM_RUNTIME, Answer, Engine, OnRetry, Runtime, read_list
from socialpub_client.events import EventMethods
from socialpub_client.messages import DEFAULT_TIMEOUT, AsyncTransport, Steps, Timeout, Transport
from socialpub_client.operations import Asynchronous, Resource, Synchronous, operation
from socialpub_client.resources import (
    AccountMethods,
    BatchMethods,
    DraftMethods,
    MediaMethods,
    PostMethods,
    SlotMethods,
    WebhookMethods,
)
from socialpub_client.servers import resolve_server


class Posts(PostMethods, Synchronous):
    """Posts, with blocking calls."""


class AsyncPosts(PostMethods, Asynchronous):
    """Posts, awaited."""


class Batches(BatchMethods, Synchronous):
    """Batches, with blocking calls."""


class AsyncBatches(BatchMethods, Asynchronous):
    """Batches, awaited."""


class Drafts(DraftMethods, Synchronous):
    """Drafts, with blocking calls."""


class AsyncDrafts(DraftMethods, Asynchronous):
    """Drafts, awaited."""


class Accounts(AccountMethods, Synchronous):
    """Accounts, with blocking calls."""


class AsyncAccounts(AccountMethods, Asynchronous):
    """Accounts, awaited."""


class MediaFiles(MediaMethods, Synchronous):
    """Media files, with blocking calls."""


class AsyncMediaFiles(MediaMethods, Asynchronous):
    """Media files, awaited."""


class Slots(SlotMethods, Synchronous):
    """Slots, with blocking calls."""


class AsyncSlots(SlotMethods, Asynchronous):
    """Slots, awaited."""


class Events(EventMethods, Synchronous):
    """Events, with blocking calls."""


class AsyncEvents(EventMethods, Asynchronous):
    """Events, awaited."""


class Webhooks(WebhookMethods, Synchronous):
    """Webhooks, with blocking calls."""


class AsyncWebhooks(WebhookMethods, Asynchronous):
    """Webhooks, awaited."""


class _ServerMethods(Resource):
    """Calls about the key, the catalogues, and any operation."""

    @operation
    def me(self) -> Steps[models.Caller]:
        """Read what the key belongs to and may do."""
        return (yield from self.engine.get("/v1/me", models.Caller.parse))

    @operation
    def rules(self) -> Steps[tuple[models.RuleInfo, ...]]:
        """List the rules that content is checked by."""
        answer = yield from self.engine.request("GET", "/v1/rules")
        return read_list(models.RuleInfo.parse, answer)

    @operation
    def platforms(self) -> Steps[tuple[models.PlatformInfo, ...]]:
        """List the platforms with a summary of their limits."""
        answer = yield from self.engine.request("GET", "/v1/platforms")
        return read_list(models.PlatformInfo.parse, answer)

    @operation
    def errors(self) -> Steps[tuple[models.CodeInfo, ...]]:
        """List the error codes."""
        answer = yield from self.engine.request("GET", "/v1/errors")
        return read_list(models.CodeInfo.parse, answer)

    @operation
    def request(
        self,
        method: str,
        path: str,
        json: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        if_match: str | None = None,
        wait: float | None = None,
    ) -> Steps[Answer]:
        """Send any request, with the retries and errors of the other methods."""
        return (
            yield from self.engine.request(
                method,
                path,
                json=json,
                params=params,
                headers=headers,
                idempotency_key=idempotency_key,
                if_match=if_match,
                wait=wait,
            )
        )


def _engine(
    url: str | None,
    key: str | None,
    server: str | None,
    profile: str | None,
    timeout: Timeout,
    retries: int,
    patience: float,
    allow_http: bool,
    on_retry: OnRetry | None,
    runtime: Runtime,
) -> Engine:
    found = resolve_server(url, key, server, profile)
    return Engine(found.url, found.key, found.profile, timeout, retries, patience, runtime, allow_http, on_retry)


class Socialpub(_ServerMethods, Synchronous):
    """Client of one server, for any number of threads. Close it, or use it in `with`.

    `url`, `key`: default SOCIALPUB_URL and SOCIALPUB_KEY, then the file of named servers. `server`: a name in it.
    `profile`: the profile that an organization's key means. `retries`: tries after the first. `patience`: the most
    seconds that one call waits between its tries. `on_retry`: called with the error of a try and the seconds until the
    next one.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        server: str | None = None,
        profile: str | None = None,
        timeout: Timeout = DEFAULT_TIMEOUT,
        retries: int = 4,
        patience: float = 120.0,
        allow_http: bool = False,
        on_retry: OnRetry | None = None,
        transport: Transport | None = None,
        sleep: Callable[[float], None] | None = None,
        runtime: Runtime = SYSTEM_RUNTIME,
    ) -> None:
        engine = _engine(url, key, server, profile, timeout, retries, patience, allow_http, on_retry, runtime)
        driver = SyncDriver(transport, sleep)
        super().__init__(engine, driver)
        self._transport = driver.transport
        self.posts = Posts(engine, driver)
        self.batches = Batches(engine, driver)
        self.drafts = Drafts(engine, driver)
        self.accounts = Accounts(engine, driver)
        self.media = MediaFiles(engine, driver)
        self.slots = Slots(engine, driver)
        self.events = Events(engine, driver)
        self.webhooks = Webhooks(engine, driver)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Socialpub({self.engine.url!r})"


class AsyncSocialpub(_ServerMethods, Asynchronous):
    """Client of one server, for the tasks of one event loop. Arguments: as `Socialpub`."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        server: str | None = None,
        profile: str | None = None,
        timeout: Timeout = DEFAULT_TIMEOUT,
        retries: int = 4,
        patience: float = 120.0,
        allow_http: bool = False,
        on_retry: OnRetry | None = None,
        transport: AsyncTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] | None = None,
        runtime: Runtime = SYSTEM_RUNTIME,
    ) -> None:
        engine = _engine(url, key, server, profile, timeout, retries, patience, allow_http, on_retry, runtime)
        driver = AsyncDriver(transport, sleep)
        super().__init__(engine, driver)
        self._transport = driver.transport
        self.posts = AsyncPosts(engine, driver)
        self.batches = AsyncBatches(engine, driver)
        self.drafts = AsyncDrafts(engine, driver)
        self.accounts = AsyncAccounts(engine, driver)
        self.media = AsyncMediaFiles(engine, driver)
        self.slots = AsyncSlots(engine, driver)
        self.events = AsyncEvents(engine, driver)
        self.webhooks = AsyncWebhooks(engine, driver)

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncSocialpub({self.engine.url!r})"
