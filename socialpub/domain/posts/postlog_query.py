"""Which posts a page of the post log shows: bounded work for every combination of filters, whatever the rows are.

An index has the log's order only within equal values, so a filter by platform, status or error code becomes one probe
for each combination of values, merged by the database. Where the filters leave few posts, text is looked for in those;
else it comes from the search index, or, while many posts are not in it, from reading down the log.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from socialpub import platforms
from socialpub.store import search, sql
from socialpub.store.rows import PostStatus
from socialpub.store.search import PLACE, Condition, Hit, Sought, among, every, whose

PROBES = 56  # in one statement: each platform with each status
FEW = 20_000  # posts that are read through rather than searched
_STATUSES: tuple[str, ...] = get_args(PostStatus)


@dataclass(frozen=True)
class Filter:
    """What to list. Empty and None: everything; `after` is exclusive, so is `below`, a place in the log."""

    organization: str
    profile: str | None = None  # of that organization
    batch: str | None = None
    platforms: Sequence[str] = ()
    statuses: Sequence[str] = ()
    error_codes: Sequence[str] = ()
    text: str | None = None  # folded
    after: int | None = None
    below: tuple[int, int] | None = None  # its time and the number of its post
    account: Target | None = None  # of that profile
    schedule: Schedule | None = None  # None: those that were published at once, too

    @property
    def is_plain(self) -> bool:
        """Whether it leaves nothing out between its bounds."""
        narrowings = (self.batch, self.text, self.account, self.schedule)
        return all(value is None for value in narrowings) and not _chosen(self)

    @property
    def is_empty(self) -> bool:
        """Whether no post can have all of it.

        SQLite would stop reading a text at its NUL. A fold is empty where nothing of the text can be seen.
        """
        if self.text is not None and (not self.text or "\0" in self.text):
            return True
        return bool(self.account and self.platforms and self.account.platform not in self.platforms)


@dataclass(frozen=True)
class Target:
    """The account that posts go to, and its platform."""

    id: str
    platform: str


@dataclass(frozen=True)
class Schedule:
    """Between which times posts are scheduled, both exclusive; so is `above`, a place in the order of these times."""

    after: int | None = None
    before: int | None = None
    above: tuple[int, int] | None = None


def newest(wanted: Filter, count: int) -> list[Hit]:
    """The newest `count` posts of the filter, newest first."""
    if wanted.is_empty:
        return []
    if wanted.text is None or wanted.batch is not None or _are_few(wanted):
        return _probed(wanted, count)
    if search.is_indexed(wanted.text):
        return _searched(wanted, wanted.text, count)
    return _read(wanted, count)


# --- By probes ---------------------------------------------------------------------------------------------------


def _probed(wanted: Filter, count: int) -> list[Hit]:
    hits: list[Hit] = []
    for statement, values in _statements(wanted, PLACE):
        hits += _fetched(statement, values, count)
    return sorted(hits, reverse=True)[:count]


def _fetched(statement: str, values: tuple[Any, ...], count: int) -> list[Hit]:
    return search.hits(f"{statement} ORDER BY 1 DESC, 2 DESC LIMIT ?", (*values, count))


def _are_few(wanted: Filter) -> bool:
    """Whether account, status and error code leave so few posts that looking into each is cheapest."""
    if not wanted.account and not wanted.statuses and not wanted.error_codes:
        return False  # all other filters are in the search index
    # Some are counted that the rows would rule out: an index alone counts.
    return are_few(_statements(replace(wanted, text=None, schedule=None), "1"))


def are_few(statements: Iterable[Statement]) -> bool:
    """Whether SELECTs together find no more than FEW."""
    left = FEW
    for statement, values in statements:
        left -= sql.value(f"SELECT count(*) FROM ({statement} LIMIT ?)", (*values, left + 1))
        if left < 0:
            return False
    return True


Statement = tuple[str, tuple[Any, ...]]
"""A SELECT, and its values."""


def _statements(wanted: Filter, columns: str) -> Iterator[Statement]:
    return together(_probes(wanted), columns)


def together(conditions: Iterable[Condition], columns: str) -> Iterator[Statement]:
    """SELECTs that find the posts of any of the conditions, each of at most PROBES probes."""
    probes = iter(conditions)
    while some := list(itertools.islice(probes, PROBES)):
        yield (
            " UNION ALL ".join(f"SELECT {columns} FROM post WHERE {probe.sql}" for probe in some),
            tuple(value for probe in some for value in probe.values),
        )


def _probes(wanted: Filter) -> Iterator[Condition]:
    if wanted.batch is not None:
        yield every([among("post.batch", [wanted.batch]), *_filters(wanted), *_bounds(wanted), *_text(wanted)])
        return
    dimensions = _dimensions(wanted)
    owner = [*_owner(wanted), *_account(wanted)] if dimensions else [*_narrowest(wanted)]
    for values in itertools.product(*dimensions.values()):
        equal = [among(f"post.{name}", [value]) for name, value in zip(dimensions, values, strict=True)]
        yield every([*owner, *equal, *_bounds(wanted), *_text(wanted)])


def _dimensions(wanted: Filter) -> dict[str, Sequence[str]]:
    """The columns that follow the owner in the index that serves the filter, each with the values to probe."""
    if not _chosen(wanted):
        return {}
    codes = {"error_code": wanted.error_codes} if wanted.error_codes else {}
    of_platform = (wanted.account.platform,) if wanted.account else wanted.platforms
    others = {"status": wanted.statuses or _STATUSES, "platform": of_platform or tuple(platforms.PLATFORMS)}
    return {name: tuple(dict.fromkeys(values)) for name, values in (codes | others).items()}


# --- By text -----------------------------------------------------------------------------------------------------


def _read(wanted: Filter, count: int) -> list[Hit]:
    """Down the log from its newest post, row by row: in the order in which rows are stored, probes are not."""
    # An expression, so that no index of the column is used.
    unhelped = [among(f"post.{name} || ''", values) for name, values in _chosen(wanted).items()]
    where = every([*_narrowest(wanted), *unhelped, *_bounds(wanted), *_text(wanted)])
    return _fetched(f"SELECT {PLACE} FROM post WHERE {where.sql}", where.values, count)


def _searched(wanted: Filter, fold: str, count: int) -> list[Hit]:
    chosen = _chosen(wanted)
    sought = Sought(
        fold,
        wanted.organization,
        wanted.profile,
        (wanted.account.platform,) if wanted.account else chosen.get("platform", ()),
        chosen.get("status", ()),
        chosen.get("error_code", ()),
        after=wanted.after,
        upto=wanted.below[0] if wanted.below else None,
    )
    return search.newest(sought, every([*_filters(wanted), *_bounds(wanted)]), count)


# --- Conditions --------------------------------------------------------------------------------------------------


def _filters(wanted: Filter) -> Iterator[Condition]:
    yield whose("organization", wanted.organization)
    if wanted.profile is not None:
        yield whose("profile", wanted.profile)
    yield from _account(wanted)
    yield from (among(f"post.{name}", values) for name, values in _chosen(wanted).items())


def _chosen(wanted: Filter) -> dict[str, Sequence[str]]:
    """The filters by value that leave something out."""
    everything = {"platform": set(platforms.PLATFORMS), "status": set(_STATUSES), "error_code": None}
    of_platform = () if wanted.account else wanted.platforms
    chosen = {"platform": of_platform, "status": wanted.statuses, "error_code": wanted.error_codes}
    return {name: values for name, values in chosen.items() if values and set(values) != everything[name]}


def _owner(wanted: Filter) -> Iterator[Condition]:
    """The narrower of the two: a profile is of one organization."""
    if wanted.profile is None:
        yield whose("organization", wanted.organization)
    else:
        yield whose("profile", wanted.profile)


def _narrowest(wanted: Filter) -> Iterator[Condition]:
    """The account alone where there is one: its posts have an index of their own."""
    if wanted.account is None:
        yield from _owner(wanted)
    else:
        yield whose("account", wanted.account.id)


def _account(wanted: Filter) -> Iterator[Condition]:
    """Told from the row (`+`): what else is chosen narrows more."""
    if wanted.account is not None:
        yield whose("account", wanted.account.id, helped=False)


def _bounds(wanted: Filter) -> Iterator[Condition]:
    yield from scheduled(wanted.schedule, "+post.scheduled_at")
    if wanted.after is not None:
        yield Condition("post.created_at > ?", (wanted.after,))
    if wanted.below is not None:
        yield Condition("(post.created_at, post.number) < (?, ?)", wanted.below)


def _text(wanted: Filter) -> Iterator[Condition]:
    if wanted.text is not None:
        yield search.containing(wanted.text)


def scheduled(schedule: Schedule | None, column: str) -> Iterator[Condition]:
    """That a post was scheduled, for a time within the bounds; `column` with a `+` keeps its index out of it."""
    if schedule is None:
        return
    yield Condition(f"{column} IS NOT NULL", ())
    if schedule.after is not None:
        yield Condition(f"{column} > ?", (schedule.after,))
    if schedule.before is not None:
        yield Condition(f"{column} < ?", (schedule.before,))
    if schedule.above is not None:
        yield Condition(f"({column}, post.number) > (?, ?)", schedule.above)
