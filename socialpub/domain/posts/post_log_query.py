"""Queries of the post log, with bounded work for every combination of filters.

An index has the log's order only within equal values, so a filter by platform, status or error code becomes one probe
per combination of values, merged by the database. If the filters leave few posts, text is matched in those; otherwise
by the search index or, while many posts are unindexed, by reading down the log.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from socialpub import platforms
from socialpub.store import search
from socialpub.store.engine import sql
from socialpub.store.rows import PostStatus
from socialpub.store.search import HIT_COLUMNS, SearchHit, SearchQuery, SqlCondition, in_scope, match_all, match_any

PROBES_MAX = 56  # per statement: each platform with each status
SCAN_MAX = 20_000  # posts that are scanned rather than searched
_STATUSES: tuple[str, ...] = get_args(PostStatus)


@dataclass(frozen=True)
class PostFilter:
    """Filter of posts. Empty and None do not restrict; `after` and `below` are exclusive."""

    organization: str
    profile: str | None = None  # of that organization
    batch: str | None = None
    platforms: Sequence[str] = ()
    statuses: Sequence[str] = ()
    error_codes: Sequence[str] = ()
    text: str | None = None  # folded
    after: int | None = None
    below: tuple[int, int] | None = None  # (time, post number)
    accounts: Sequence[AccountFilter] | None = None  # of that profile; None: all
    schedule: ScheduleRange | None = None  # None: immediate posts too
    external_ids: Sequence[str] = ()
    external_id_prefix: str | None = None

    @property
    def is_plain(self) -> bool:
        """True if nothing between the bounds is filtered out."""
        narrowings = (self.batch, self.text, self.accounts, self.schedule)
        return all(value is None for value in narrowings) and not self.is_named and not _effective_filters(self)

    @property
    def is_named(self) -> bool:
        """True if only posts with certain external ids match."""
        return bool(self.external_ids) or self.external_id_prefix is not None

    @property
    def is_empty(self) -> bool:
        """True if no post can match.

        SQLite would stop reading a text at NUL. A fold is empty if nothing of the text is visible.
        """
        if self.text is not None and (not self.text or "\0" in self.text):
            return True
        return self.accounts is not None and not self.matching_accounts

    @property
    def matching_accounts(self) -> list[AccountFilter]:
        """Those of `accounts` on a wanted platform."""
        wanted = self.platforms or platforms.PLATFORMS
        return [account for account in self.accounts or () if account.platform in wanted]


@dataclass(frozen=True)
class AccountFilter:
    """Filter on an account, with its platform."""

    id: str
    platform: str


@dataclass(frozen=True)
class ScheduleRange:
    """Exclusive bounds on scheduled time; `above` is a position in that order."""

    after: int | None = None
    before: int | None = None
    above: tuple[int, int] | None = None


def find_newest(wanted: PostFilter, count: int) -> list[SearchHit]:
    """Find the newest `count` posts of the filter, newest first."""
    if wanted.is_empty:
        return []
    if wanted.batch is None and wanted.is_named:
        if not (wanted.external_ids or _has_few_named(wanted)):
            return _scan_log(wanted, count)
    elif wanted.batch is None and wanted.text is not None and not _has_few(wanted):
        is_indexed = search.is_indexed(wanted.text)
        return _search_index(wanted, wanted.text, count) if is_indexed else _scan_log(wanted, count)
    return find_by_probes(_build_probes(wanted), count)


# --- By probes ---------------------------------------------------------------------------------------------------


def find_by_probes(probes: Iterable[SqlCondition], count: int) -> list[SearchHit]:
    """Find the newest `count` posts of all probes, newest first."""
    hits: list[SearchHit] = []
    for statement, values in combine_conditions(probes, HIT_COLUMNS):
        hits += _fetch(statement, values, count)
    return sorted(hits, reverse=True)[:count]


def _fetch(statement: str, values: tuple[Any, ...], count: int) -> list[SearchHit]:
    return search.find_hits(f"{statement} ORDER BY 1 DESC, 2 DESC LIMIT ?", (*values, count))


def _has_few(wanted: PostFilter) -> bool:
    """Return whether account, status and error code leave few enough posts to scan each."""
    if wanted.accounts is None and not wanted.statuses and not wanted.error_codes:
        return False  # all other filters are in the search index
    # Counting only from an index includes rows that other filters would exclude.
    return has_few(_build_probes(replace(wanted, text=None, schedule=None)))


def _has_few_named(wanted: PostFilter) -> bool:
    """Return whether the prefix leaves few enough posts to sort them."""
    owner = in_scope("organization", wanted.organization)
    return has_few([match_all([owner, spot]) for spot in _named_conditions(wanted)])


def has_few(probes: Iterable[SqlCondition]) -> bool:
    """Return whether the probes together find at most `SCAN_MAX` rows."""
    left = SCAN_MAX
    for statement, values in combine_conditions(probes, "1"):
        left -= sql.fetch_value(f"SELECT count(*) FROM ({statement} LIMIT ?)", (*values, left + 1))
        if left < 0:
            return False
    return True


Statement = tuple[str, tuple[Any, ...]]
"""SELECT statement with its parameters."""


def combine_conditions(conditions: Iterable[SqlCondition], columns: str) -> Iterator[Statement]:
    """Combine conditions into SELECTs of at most `PROBES_MAX` probes each."""
    probes = iter(conditions)
    while some := list(itertools.islice(probes, PROBES_MAX)):
        yield (
            " UNION ALL ".join(f"SELECT {columns} FROM post WHERE {probe.sql}" for probe in some),
            tuple(value for probe in some for value in probe.values),
        )


def _build_probes(wanted: PostFilter) -> Iterator[SqlCondition]:
    if wanted.batch is not None:
        owner = in_scope("organization", wanted.organization, use_index=False)
        yield match_all([match_any("post.batch", [wanted.batch]), owner, *_unindexed_conditions(wanted)])
        return
    if wanted.is_named:
        yield from _build_named_probes(wanted)
        return
    dimensions = _probe_dimensions(wanted)
    rest = [*_bound_conditions(wanted), *_text_condition(wanted)]
    if not dimensions:  # each account has its own index
        for owner in _narrowest_conditions(wanted):
            yield match_all([owner, *rest])
        return
    owners = [*_owner_condition(wanted), *_account_condition(wanted)]
    for values in itertools.product(*dimensions.values()):
        equal = [match_any(f"post.{name}", [value]) for name, value in zip(dimensions, values, strict=True)]
        yield match_all([*owners, *equal, *rest])


def _build_named_probes(wanted: PostFilter) -> Iterator[SqlCondition]:
    """Yield probes of the index of external ids."""
    rest = list(_unindexed_conditions(wanted))
    for spot in _named_conditions(wanted):
        yield match_all([in_scope("organization", wanted.organization), spot, *rest])


def _unindexed_conditions(wanted: PostFilter) -> Iterator[SqlCondition]:
    """Yield the filters beside organization, batch and external id, checked on the row (`+`)."""
    if wanted.profile is not None:
        yield in_scope("profile", wanted.profile, use_index=False)
    yield from _account_condition(wanted)
    yield from (match_any(f"+post.{name}", values) for name, values in _effective_filters(wanted).items())
    yield from _bound_conditions(wanted)
    yield from _text_condition(wanted)


def _named_conditions(wanted: PostFilter) -> Iterator[SqlCondition]:
    """Yield the conditions on the external id, one for each probe of its index."""
    ids = dict.fromkeys(wanted.external_ids)
    yield from (match_any("post.external_id", [id]) for id in ids) if ids else external_id_conditions(wanted, "")


def _probe_dimensions(wanted: PostFilter) -> dict[str, Sequence[str]]:
    """Return the index columns after the owner, each with the values to probe."""
    if not _effective_filters(wanted):
        return {}
    codes = {"error_code": wanted.error_codes} if wanted.error_codes else {}
    of_platform = tuple(account.platform for account in wanted.matching_accounts) or wanted.platforms
    others = {"status": wanted.statuses or _STATUSES, "platform": of_platform or tuple(platforms.PLATFORMS)}
    return {name: tuple(dict.fromkeys(values)) for name, values in (codes | others).items()}


# --- By text -----------------------------------------------------------------------------------------------------


def _scan_log(wanted: PostFilter, count: int) -> list[SearchHit]:
    """Scan down the log in storage order, which is faster than probes."""
    # An expression keeps SQLite from using an index of the column.
    unhelped = [match_any(f"post.{name} || ''", values) for name, values in _effective_filters(wanted).items()]
    owners = [*_narrowest_conditions(wanted)]
    if len(owners) > 1:  # several accounts, each with its own index
        owners = [*_owner_condition(wanted), *_account_condition(wanted)]
    where = match_all([*owners, *unhelped, *_bound_conditions(wanted), *_text_condition(wanted)])
    return _fetch(f"SELECT {HIT_COLUMNS} FROM post WHERE {where.sql}", where.values, count)


def _search_index(wanted: PostFilter, fold: str, count: int) -> list[SearchHit]:
    chosen = _effective_filters(wanted)
    sought = SearchQuery(
        fold,
        wanted.organization,
        wanted.profile,
        tuple({account.platform for account in wanted.matching_accounts}) or chosen.get("platform", ()),
        chosen.get("status", ()),
        chosen.get("error_code", ()),
        after=wanted.after,
        upto=wanted.below[0] if wanted.below else None,
    )
    return search.find_newest(sought, match_all([*_filter_conditions(wanted), *_bound_conditions(wanted)]), count)


# --- Conditions --------------------------------------------------------------------------------------------------


def _filter_conditions(wanted: PostFilter) -> Iterator[SqlCondition]:
    yield in_scope("organization", wanted.organization)
    if wanted.profile is not None:
        yield in_scope("profile", wanted.profile)
    yield from _account_condition(wanted)
    yield from (match_any(f"post.{name}", values) for name, values in _effective_filters(wanted).items())


def _effective_filters(wanted: PostFilter) -> dict[str, Sequence[str]]:
    """Return the value filters that exclude something."""
    everything = {"platform": set(platforms.PLATFORMS), "status": set(_STATUSES), "error_code": None}
    of_platform = () if wanted.accounts is not None else wanted.platforms
    chosen = {"platform": of_platform, "status": wanted.statuses, "error_code": wanted.error_codes}
    return {name: values for name, values in chosen.items() if values and set(values) != everything[name]}


def _owner_condition(wanted: PostFilter) -> Iterator[SqlCondition]:
    """Yield the narrower condition: a profile belongs to one organization."""
    if wanted.profile is None:
        yield in_scope("organization", wanted.organization)
    else:
        yield in_scope("profile", wanted.profile)


def _narrowest_conditions(wanted: PostFilter) -> Iterator[SqlCondition]:
    """Yield the condition of each account, or the one of the owner: each has an index."""
    if wanted.accounts is None:
        yield from _owner_condition(wanted)
    else:
        yield from (in_scope("account", account.id) for account in wanted.matching_accounts)


def _account_condition(wanted: PostFilter) -> Iterator[SqlCondition]:
    """Check the accounts on the row (`+`): the other filters narrow more."""
    if wanted.accounts is not None:
        ids = match_any("id", [account.id for account in wanted.matching_accounts])
        yield SqlCondition(f"+post.account IN (SELECT number FROM account WHERE {ids.sql})", ids.values)


def _bound_conditions(wanted: PostFilter) -> Iterator[SqlCondition]:
    yield from schedule_conditions(wanted.schedule, "+post.scheduled_at")
    yield from external_id_conditions(wanted, "+")
    if wanted.after is not None:
        yield SqlCondition("post.created_at > ?", (wanted.after,))
    if wanted.below is not None:
        yield SqlCondition("(post.created_at, post.number) < (?, ?)", wanted.below)


def _text_condition(wanted: PostFilter) -> Iterator[SqlCondition]:
    if wanted.text is not None:
        yield search.match_text(wanted.text)


def external_id_conditions(wanted: PostFilter, sign: str) -> Iterator[SqlCondition]:
    """Yield conditions on the external id; with `+` as `sign` they bypass its index."""
    column = f"{sign}post.external_id"
    if wanted.external_ids:
        yield match_any(column, wanted.external_ids)
    if (prefix := wanted.external_id_prefix) is not None:
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        yield SqlCondition(f"{column} >= ? AND {column} < ?", (prefix, end))


def schedule_conditions(schedule: ScheduleRange | None, column: str) -> Iterator[SqlCondition]:
    """Yield conditions on the scheduled time; a `+` in `column` bypasses its index."""
    if schedule is None:
        return
    yield SqlCondition(f"{column} IS NOT NULL", ())
    if schedule.after is not None:
        yield SqlCondition(f"{column} > ?", (schedule.after,))
    if schedule.before is not None:
        yield SqlCondition(f"{column} < ?", (schedule.before,))
    if schedule.above is not None:
        yield SqlCondition(f"({column}, post.number) > (?, ?)", schedule.above)
