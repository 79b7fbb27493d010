"""`socialpub media`: upload and list files."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from socialpub_client.client import Socialpub
from socialpub_client.commands.click_types import ApiOptions
from socialpub_client.commands.content_options import check_file
from socialpub_client.commands.exit_codes import FAILED, PARTLY, REFUSED
from socialpub_client.commands.posts import limited, page_size
from socialpub_client.commands.runner import (
    Output,
    confirm,
    connect,
    connect_to_write,
    is_terminal,
    new_key,
    report_error,
    writing,
)
from socialpub_client.errors import SocialpubError
from socialpub_client.terminal_text import escape_controls

Json = dict[str, Any]


def upload(options: ApiOptions) -> Output:
    """Upload files; the rows come as each is stored."""
    if options.idempotency_key and len(options.files) > 1:
        options.usage("--idempotency-key is of one request: give one file")
    for path in options.files:
        check_file(options, path)
    output = Output(lines=lambda row: [row["id"]], wrote=True)
    output.rows = _upload_all(options, connect(options), output)
    return output


def _upload_all(options: ApiOptions, client: Socialpub, output: Output) -> Iterator[Json]:
    """Upload files in order, to the first that fails; it decides the exit code."""
    for number, path in enumerate(options.files):
        try:
            row = _upload(options, client, path)
        except (SocialpubError, OSError) as error:
            code = report_error(error, options)
            output.code = PARTLY if number and code in (FAILED, REFUSED) else code
            return
        yield row


def _upload(options: ApiOptions, client: Socialpub, path: Path) -> Json:
    key = new_key(options)
    shows = is_terminal(sys.stderr) and not options.quiet and not options.json

    def progress(sent: int, total: int | None) -> None:
        draw(f"\r{escape_controls(path.name)}  {sent * 100 // (total or 1)} %")

    with writing(key):
        file = client.media.upload(path, alt=options.alt, progress=progress if shows else None, idempotency_key=key)
    if shows:
        draw("\n")
    return dict(file.raw)


def draw(text: str) -> None:
    """Print a part of the progress bar; a terminal that is gone stops no upload."""
    with contextlib.suppress(OSError):
        print(text, end="", file=sys.stderr, flush=True)


def list_media(options: ApiOptions) -> Output:
    """List uploaded files, newest first."""
    client = connect(options)
    if options.sha256:
        found = client.media.find(sha256=options.sha256)
        return Output(rows=[dict(found.raw)] if found else [], lines=_format_row)
    return Output(rows=limited(options, client.media.list(limit=page_size(options))), lines=_format_row)


def _format_row(file: Json) -> list[str]:
    return [
        "  ".join((file["id"], file["contentType"], str(file["sizeBytes"]), file["createdAt"], file["altText"] or ""))
    ]


def show(options: ApiOptions) -> Output:
    """Show an uploaded file."""
    client = connect(options)
    return Output(dict(client.media.get(options.id).raw))


def delete(options: ApiOptions) -> Output:
    """Delete an uploaded file."""
    confirm(options, f"Delete {options.id}?")
    with connect_to_write(options) as (client, key):
        return Output(dict(client.media.delete(options.id, idempotency_key=key).raw), wrote=True)
