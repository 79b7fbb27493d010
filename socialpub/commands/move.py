"""`socialpub move`: prepares moving the data elsewhere, so that only one place publishes."""

from __future__ import annotations

from typing import Any

from socialpub.commands.admin import make_actor, open_database
from socialpub.commands.click_types import CommandOptions
from socialpub.commands.serve import check_schema, find_database, hold_server_lock, load_settings
from socialpub.domain.access import actions
from socialpub.domain.background import pause_actions


def move(options: CommandOptions) -> dict[str, Any]:
    """Hand over; return `{database, handedOverAt, next}`.

    Raises CommandRefusedError beside a running server.
    """
    settings = load_settings(options)
    path = find_database(settings)
    check_schema(path)
    with hold_server_lock(settings), open_database(options) as service:
        actor = make_actor(options, service)
        if options.back:
            done = actions.perform_sync(actor, pause_actions.cancel_handover)
            return {"database": str(path), "was": done["was"], "next": "socialpub serve"}
        done = actions.perform_sync(actor, pause_actions.hand_over)
        return {"database": str(path), **done, "next": _NEXT.format(folder=settings.data_dir)}


_NEXT = (
    "copy all of {folder} to the new machine (cp -a, rsync -a, tar), start it there within 7 days, then delete it here"
)
