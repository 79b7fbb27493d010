"""What the search index costs when posts are accepted: the same rows written with and without it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import dataset
from socialpub.base.config import Settings
from socialpub.base.runtime import Runtime, load_vault
from socialpub.domain.core.service import Service, close_service, open_service
from socialpub.store import db, search
from socialpub.store.models import Batch, Post

POSTS = 2000
BATCHES = (1, 25)


def run(folder: Path | None) -> None:
    """Print posts a second into a database of 10,000, by batch size, with and without the index."""
    home = dataset.database(10_000, folder)
    print(f"\nAccepting: {POSTS} posts of about 130 characters, one durable transaction for each batch")
    print(f"{'batch':>6}{'without':>12}{'with':>12}{'extra':>14}")
    for batch in BATCHES:
        without, with_index = (_seconds(home, batch, indexed=indexed) for indexed in (False, True))
        extra = (with_index - without) / POSTS * 1e6
        print(f"{batch:>6}{POSTS / without:>10.0f}/s{POSTS / with_index:>10.0f}/s{extra:>8.0f} µs/post")


def _seconds(home: Path, batch: int, *, indexed: bool) -> float:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "socialpub.db"
        path.write_bytes((home / "socialpub.db").read_bytes())
        db.migrate(path)
        settings = Settings(database={"url": str(path)})
        service = open_service(Runtime(settings, load_vault(settings)))
        try:
            return _insert(service, batch, indexed=indexed)
        finally:
            close_service(service)


def _insert(service: Service, batch: int, *, indexed: bool) -> float:
    rows = service.read(lambda: list(Post.select().limit(POSTS).dicts())).result()
    known = {"id": service.runtime.ids.uuid(), "organization": dataset.ORGANIZATION, "created_at": 0}
    service.write(lambda tx: Batch.insert(**known).execute()).result()
    for number, row in enumerate(rows):
        del row["number"]
        row |= {
            "id": service.runtime.ids.uuid(),
            "batch": known["id"],
            "position": number,
            "created_at": service.now_ms,
        }

    began = time.perf_counter()
    for start in range(0, len(rows), batch):
        service.write(_writing(rows[start : start + batch], indexed=indexed)).result()
    return time.perf_counter() - began


def _writing(rows: list[dict[str, Any]], *, indexed: bool) -> Callable[[db.Tx], None]:
    def write(tx: db.Tx) -> None:
        for row in rows:
            number = Post.insert(**row).execute()
            if indexed:
                search.add(number, row)

    return write
