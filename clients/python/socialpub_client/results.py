"""Answers with methods: batches that can be waited for, and checks."""

from __future__ import annotations

from typing import Any, Self

from socialpub_client import errors
from socialpub_client.answers import BatchData, Validation
from socialpub_client.engine import Engine
from socialpub_client.operations import is_final, wait_for_batch


class Check(Validation):
    """Result of a check: nothing was published."""

    __slots__ = ()

    @property
    def ok(self) -> bool:
        """Return whether publishing would be accepted."""
        return self.valid


class _BoundBatch(BatchData):
    __slots__ = ("_driver", "_engine")
    _engine: Engine
    _driver: Any

    @classmethod
    def bind(cls, data: BatchData, engine: Engine, driver: Any) -> Self:
        """Return a batch with the client that read it."""
        bound = cls.parse(data.raw, data.etag)
        object.__setattr__(bound, "_engine", engine)  # the class is frozen
        object.__setattr__(bound, "_driver", driver)
        return bound

    @property
    def is_final(self) -> bool:
        """Return whether every target has ended."""
        return is_final(self)

    def raise_for_failure(self) -> Self:
        """Return this batch. Raises PublishFailed if a target has failed."""
        if any(result.status in ("failed", "rejected") for result in self.results):
            raise errors.PublishFailed(self)
        return self


class Batch(_BoundBatch):
    """Batch of posts: one result for each target."""

    __slots__ = ()

    def wait(self, timeout: float = 300) -> Batch:
        """Return the batch once every target has ended. Raises WaitTimedOut with its last state."""
        data = self._driver.run(wait_for_batch(self._engine, self, timeout))
        return Batch.bind(data, self._engine, self._driver)


class AsyncBatch(_BoundBatch):
    """Batch of posts: one result for each target."""

    __slots__ = ()

    async def wait(self, timeout: float = 300) -> AsyncBatch:
        """Return the batch once every target has ended. Raises WaitTimedOut with its last state."""
        data = await self._driver.run(wait_for_batch(self._engine, self, timeout))
        return AsyncBatch.bind(data, self._engine, self._driver)
