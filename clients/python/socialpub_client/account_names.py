"""Names by which commands and calendars mean accounts."""

from __future__ import annotations

from collections.abc import Iterable

from socialpub_client.errors import InvalidArgument
from socialpub_client.models import Account

LISTED_MAX = 10


def find_account(accounts: Iterable[Account], name: str) -> Account:
    """Return the account of an id or @name, or the only one of a platform.

    Raises InvalidArgument where there is none, or more than one.
    """
    if name.startswith("@"):
        found = [account for account in accounts if name[1:].casefold() in _list_names(account)]
    else:
        found = [account for account in accounts if name in (account.id, account.platform)]
    if len(found) != 1:
        listed = ", ".join(f"{each.platform} {each.id} ({each.display_name})" for each in found[:LISTED_MAX])
        raise InvalidArgument(f"{name} means {len(found)} accounts: {listed}" if found else f"No account is {name}.")
    return found[0]


def _list_names(account: Account) -> set[str]:
    names = (account.display_name, account.platform_account_id)
    return {name.removeprefix("@").casefold() for name in names if name}


def find_group(accounts: Iterable[Account], name: str) -> list[Account]:
    """Return the accounts of a group. Raises InvalidArgument without any."""
    found = [account for account in accounts if name in (account.groups or ())]
    if not found:
        raise InvalidArgument(f"No platform, account or group is {name}.")
    return found
