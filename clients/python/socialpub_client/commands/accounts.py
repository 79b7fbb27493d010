"""`socialpub accounts`: list connected accounts."""

from __future__ import annotations

from typing import Any

from socialpub_client.commands.click_types import ApiOptions
from socialpub_client.commands.content_options import find_account
from socialpub_client.commands.runner import Output, connect

Json = dict[str, Any]


def list_accounts(options: ApiOptions) -> Output:
    """List connected accounts."""
    client = connect(options)
    rows = [dict(row.raw) for row in client.accounts.list(platform=options.platform, status=options.status)]
    return Output(rows=rows, lines=_format_row)


def _format_row(account: Json) -> list[str]:
    name = account["displayName"] or account["platformAccountId"]
    attention: Json = account.get("attention") or {}
    return [
        "  ".join(filter(None, (account["id"], account["platform"], account["status"], name, attention.get("message"))))
    ]


def show(options: ApiOptions) -> Output:
    """Show a connected account."""
    client = connect(options)
    return Output(dict(client.accounts.get(find_account(options, client, options.id)).raw))


def boards(options: ApiOptions) -> Output:
    """List the boards of an account."""
    client = connect(options)
    found = client.accounts.boards(find_account(options, client, options.id)).raw
    return Output(
        rows=[dict(row) for row in found["data"]], lines=lambda row: [f"{row['id']}  {row['name']}  {row['privacy']}"]
    )
