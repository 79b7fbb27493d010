"""`socialpub resume`: ends a pause, after listing the overdue posts."""

from __future__ import annotations

from typing import Any

from socialpub.base.runtime import format_iso
from socialpub.commands.admin import make_actor, open_database
from socialpub.commands.click_types import CommandOptions
from socialpub.commands.serve import CommandRefusedError
from socialpub.domain.access import actions
from socialpub.domain.background import pause_actions, recovery
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.publishing import overdue_rule
from socialpub.domain.server import instance
from socialpub_client.commands.exit_codes import REFUSED
from socialpub_client.commands.runner import printing


def resume(options: CommandOptions) -> dict[str, Any]:
    """End a pause, in a running server too; return `{was, paused, publish, skip}`."""
    with open_database(options) as service:
        reason = service.read(instance.get_pause_reason).result()
        if reason is None:
            options.sentences = ["Publishing was not paused; nothing was changed."]
            return {"was": None, "paused": None, "publish": [], "skip": []}
        publish, skip = _split_overdue(service, options.skip_overdue)
        if reason == instance.RESTORED and not options.after_restore:
            options.exit_code = REFUSED
            if not options.json:
                with printing():
                    print(*_describe_overdue(publish, skip), sep="\n")
            raise CommandRefusedError(_RESTORED_TEXT)
        recovery.fail_posts(service, skip)
        actions.perform_sync(make_actor(options, service), pause_actions.end_pause, reason)
        options.sentences = [
            *_describe_overdue(publish, skip),
            f"Publishing was paused ({reason}) and continues now.",
        ]
        return {
            "was": reason,
            "paused": service.read(instance.get_pause_reason).result(),
            "publish": [_body(row) for row in publish],
            "skip": [_body(row) for row in skip],
        }


_RESTORED_TEXT = (
    "This database was restored or copied: posts that it lists as queued may have been published since. Compare "
    "them with the platforms, then run: socialpub resume --after-restore [--skip-overdue]"
)


def _split_overdue(
    service: AppContext, skip_all: bool
) -> tuple[list[overdue_rule.DuePost], list[overdue_rule.DuePost]]:
    """Split overdue posts into those to publish now, and those that fail."""
    late = service.read(lambda: overdue_rule.list_overdue(service.now_ms)).result()
    ends = service.now_ms if skip_all else overdue_rule.get_cutoff(service)
    return [row for row in late if overdue_rule.get_due_time(row) >= ends], [
        row for row in late if overdue_rule.get_due_time(row) < ends
    ]


def _describe_overdue(publish: list[overdue_rule.DuePost], skip: list[overdue_rule.DuePost]) -> list[str]:
    """Describe each overdue post."""
    if not publish and not skip:
        return ["No post is overdue."]
    return [
        f"Post {row['id']} on {row['platform']}, due {format_iso(overdue_rule.get_due_time(row))}, {then}."
        for then, rows in (("is published now", publish), ("fails: it is overdue (schedule.overdue)", skip))
        for row in rows
    ]


def _body(row: overdue_rule.DuePost) -> dict[str, Any]:
    return {
        "id": row["id"],
        "platform": row["platform"],
        "accountId": row["account"],
        "dueAt": format_iso(overdue_rule.get_due_time(row)),
    }
