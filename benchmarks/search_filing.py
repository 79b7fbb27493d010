"""Benchmark of the search index: time to file one accepted post."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks import dataset
from socialpub.base.config import Settings
from socialpub.base.runtime import Runtime, load_vault
from socialpub.domain.context.app_context import AppContext, close_context, open_context
from socialpub.store import search
from socialpub.store.engine import sql

POSTS = 5000


def run(folder: Path | None) -> None:
    """Print what filing a post takes, of those of a database of 10,000."""
    with tempfile.TemporaryDirectory() as name:
        dataset.copy_database(dataset.database(10_000, folder), Path(name))
        settings = Settings(database={"url": str(Path(name) / "socialpub.db")})
        service = open_context(Runtime(settings, load_vault(settings)))
        try:
            microseconds = _microseconds(service)
        finally:
            close_context(service)
    print(f"\nFiling {POSTS} posts of about 130 characters, {search.INDEX_BATCH} in a durable transaction")
    print(f"{microseconds:.0f} µs/post")


def _microseconds(service: AppContext) -> float:
    """Of the clock, for each post that the index gets once more."""
    service.write(lambda tx: sql.execute(f"UPDATE post_search_filed SET texts = texts - {POSTS}")).result()
    began = time.perf_counter()
    while service.write(lambda tx: search.index_batch()).result():
        continue
    return (time.perf_counter() - began) / POSTS * 1e6
