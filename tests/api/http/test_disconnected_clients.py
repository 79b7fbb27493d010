"""Clients that disconnect before the response leave one log line and no error."""

from __future__ import annotations

import asyncio
import gc
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from socialpub.base.errors import ApiError
from socialpub.web.pipeline import RequestPipeline
from tests.support.request_cast import RequestCast
from tests.support.soak.soak_world import wait_for
from tests.support.unheard_requests import busy, drop


def test_who_goes_leaves_one_line_and_no_trouble(narrow: RequestCast, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    def lines() -> list[logging.LogRecord]:
        return [record for record in caplog.records if "POST" in record.getMessage()]

    with busy(narrow):
        drop(narrow, narrow.body())
        assert wait_for(lines, 60)
    (line,) = lines()
    assert " POST '/v1/posts' 499 " in line.getMessage()
    assert (line.levelno, line.exc_info) == (logging.INFO, None)
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


@pytest.mark.slow
def test_an_error_that_comes_as_its_client_goes_is_nobodys_trouble() -> None:
    lost, troubles = list[str](), list[object]()

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: troubles.append(context))
        pipeline = object.__new__(RequestPipeline)
        pipeline._running, pipeline._closed = 0, False
        goes_on = loop.create_future()

        async def handler(_: object) -> None:
            await goes_on
            raise ApiError("not_found")

        route = SimpleNamespace(constant=False, handler=handler)
        call: Any = SimpleNamespace(route=route, close=lambda: None, disconnect=lambda: lost.append("lost"))
        waits = loop.create_task(pipeline._handle_in_task(call))
        await asyncio.sleep(0)
        goes_on.set_result(None)
        while pipeline._running:
            await asyncio.sleep(0)
        waits.cancel()  # the error is there, and whoever waits for it has not been told
        with pytest.raises(asyncio.CancelledError):
            await waits

    asyncio.run(scene())
    gc.collect()
    assert (lost, troubles) == (["lost"], [])
