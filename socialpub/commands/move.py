"""`socialpub move`: prepares moving the data elsewhere, so that only one place publishes."""

from __future__ import annotations

from typing import Any

from socialpub.commands.admin import acting, opened
from socialpub.commands.parts import Options
from socialpub.commands.serve import check_schema, existing, only_server, settings_of
from socialpub.domain import act
from socialpub.domain.engine import recovery


def move(options: Options) -> dict[str, Any]:
    """Hand over; return `{database, handedOverAt, next}`. Raises RefusedError beside a server."""
    settings = settings_of(options)
    path = existing(settings)
    check_schema(path)
    with only_server(settings), opened(options) as service:
        who = acting(options, service)
        if options.back:
            done = act.do_now(who, recovery.take_back)
            return {"database": str(path), "was": done["was"], "next": "socialpub serve"}
        done = act.do_now(who, recovery.hand_over)
        return {"database": str(path), **done, "next": _NEXT.format(folder=settings.data_dir)}


_NEXT = "copy all of {folder} to its one new place (cp -a, rsync -a, tar), start it there within 7 days, remove it here"
