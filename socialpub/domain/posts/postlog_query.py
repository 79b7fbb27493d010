"""Which posts a page of the post log shows: bounded work for every combination of filters, whatever the rows are.

An index has the log's order only within equal values, so a filter by platform, status or error code becomes one probe
for each combination of values, merged by the database. Where the filters leave few posts, text is looked for in those;
else it comes from the search index, or, while many posts are not in it, from reading down the log.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from socialpub import platforms
from socialpub.store import search, sql
from socialpub.store.rows import PostStatus
from socialpub.store.search import PLACE, Condition, Hit, Sought, among, every

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
    text: str | None = None  # casefolded
    after: int | None = None
    below: tuple[int, str] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it leaves nothing out between its bounds."""
        return self.batch is None and self.text is None and not _chosen(self)


def newest(wanted: Filter, count: int) -> list[Hit]:
    """The newest `count` posts of the filter, newest first."""
    if wanted.text is not None and "\0" in wanted.text:
        return []  # no post has it, and SQLite would stop reading there
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
    """Whether status and error code leave so few posts that looking into each is cheapest."""
    if not wanted.statuses and not wanted.error_codes:
        return False  # all other filters are in the search index
    left = FEW
    for statement, values in _statements(replace(wanted, text=None), "1"):
        left -= sql.value(f"SELECT count(*) FROM ({statement} LIMIT ?)", (*values, left + 1))
        if left < 0:
            return False
    return True


def _statements(wanted: Filter, columns: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """SELECTs that find the filter's posts together, each of at most PROBES probes."""
    probes = iter(_probes(wanted))
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
    for values in itertools.product(*dimensions.values()):
        equal = [among(f"post.{name}", [value]) for name, value in zip(dimensions, values, strict=True)]
        yield every([*_owner(wanted), *equal, *_bounds(wanted), *_text(wanted)])


def _dimensions(wanted: Filter) -> dict[str, Sequence[str]]:
    """The columns that follow the owner in the index that serves the filter, each with the values to probe."""
    if not _chosen(wanted):
        return {}
    codes = {"error_code": wanted.error_codes} if wanted.error_codes else {}
    others = {"status": wanted.statuses or _STATUSES, "platform": wanted.platforms or tuple(platforms.PLATFORMS)}
    return {name: tuple(dict.fromkeys(values)) for name, values in (codes | others).items()}


# --- By text -----------------------------------------------------------------------------------------------------


def _read(wanted: Filter, count: int) -> list[Hit]:
    """Down the log from its newest post, row by row: in the order in which rows are stored, probes are not."""
    # An expression, so that no index of the column is used.
    unhelped = [among(f"post.{name} || ''", values) for name, values in _chosen(wanted).items()]
    where = every([*_owner(wanted), *unhelped, *_bounds(wanted), *_text(wanted)])
    return _fetched(f"SELECT {PLACE} FROM post WHERE {where.sql}", where.values, count)


def _searched(wanted: Filter, fold: str, count: int) -> list[Hit]:
    chosen = _chosen(wanted)
    sought = Sought(
        fold,
        wanted.organization,
        wanted.profile,
        chosen.get("platform", ()),
        chosen.get("status", ()),
        chosen.get("error_code", ()),
        after=wanted.after,
        upto=wanted.below[0] if wanted.below else None,
    )
    return search.newest(sought, every([*_filters(wanted), *_bounds(wanted)]), count)


# --- Conditions --------------------------------------------------------------------------------------------------


def _filters(wanted: Filter) -> Iterator[Condition]:
    yield among("post.organization", [wanted.organization])
    if wanted.profile is not None:
        yield among("post.profile", [wanted.profile])
    yield from (among(f"post.{name}", values) for name, values in _chosen(wanted).items())


def _chosen(wanted: Filter) -> dict[str, Sequence[str]]:
    """The filters by value that leave something out."""
    everything = {"platform": set(platforms.PLATFORMS), "status": set(_STATUSES), "error_code": None}
    chosen = {"platform": wanted.platforms, "status": wanted.statuses, "error_code": wanted.error_codes}
    return {name: values for name, values in chosen.items() if values and set(values) != everything[name]}


def _owner(wanted: Filter) -> Iterator[Condition]:
    """The narrower of the two: a profile is of one organization."""
    if wanted.profile is None:
        yield among("post.organization", [wanted.organization])
    else:
        yield among("post.profile", [wanted.profile])


def _bounds(wanted: Filter) -> Iterator[Condition]:
    if wanted.after is not None:
        yield Condition("post.created_at > ?", (wanted.after,))
    if wanted.below is not None:
        yield Condition("(post.created_at, post.id) < (?, ?)", wanted.below)


def _text(wanted: Filter) -> Iterator[Condition]:
    if wanted.text is not None:
        yield search.containing(wanted.text)
