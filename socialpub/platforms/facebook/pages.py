"""Pages of a login: its own, and those of its business portfolios.

`/me/accounts` omits Pages of a portfolio unless business_management was granted, and some even then; the portfolios
list them (developers.facebook.com/docs/marketing-api/reference/business).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from socialpub.base.errors import ApiError, Outcome
from socialpub.platforms.contract import Json, Upstream
from socialpub.platforms.contract.bounds import to_line
from socialpub.platforms.facebook.declaration import GRAPH
from socialpub.platforms.kit.api_errors import to_text
from socialpub.platforms.meta.graph import find_cursor, list_data

BUSINESS = "business_management"
_FIELDS = "id,name,access_token,tasks,category"
_PORTFOLIO_FIELDS = "id,name,access_token,category"  # tasks are only listed under me/accounts
_LIST_PAGES_MAX = 20  # maximal pages of a list
_REQUESTS_MAX = 200  # of a login: its portfolios have two lists each
_NAMED = 5


@dataclass
class PageDiscovery:
    """Enumeration of all Pages of a login; collects what was unusable, for the error text."""

    up: Upstream
    token: str
    granted: Sequence[str]
    seen: set[str] = field(default_factory=set)
    idle: list[str] = field(default_factory=list)  # Pages where the login may not create content
    closed: list[str] = field(default_factory=list)  # Pages that a portfolio lists without a token for this person
    portfolios: int = 0
    requests: int = 0
    refusal: str = ""

    def pages(self) -> Iterator[Json]:
        """Yield each usable Page once, with its own token.

        A refusal to list portfolios ends the enumeration. Raises ApiError if a list is unavailable.
        """
        yield from self._usable("me/accounts", _FIELDS)
        if BUSINESS in self.granted:
            try:
                yield from self._portfolio_pages()
            except ApiError as error:
                if error.code == "platform_unavailable":
                    raise
                self.refusal = error.message

    def build_missing_error(self) -> ApiError:
        """Build the error of an enumeration without Pages, saying what is missing."""
        return GRAPH.build_violation(self.up, "pages.none", Outcome.REJECTED, " ".join(self._missing()))

    def _portfolio_pages(self) -> Iterator[Json]:
        for portfolio in list(self._listed("me/businesses", "id,name")):
            self.portfolios += 1
            for edge in ("owned_pages", "client_pages"):
                yield from self._usable(f"{portfolio['id']}/{edge}", _PORTFOLIO_FIELDS)

    def _usable(self, path: str, fields: str) -> Iterator[Json]:
        for page in self._listed(path, fields):
            name = to_line(to_text(page.get("name")) or page["id"])
            if page["id"] in self.seen:
                continue
            if not to_text(page.get("access_token")):
                self.closed.append(name)
                continue
            self.seen.add(page["id"])
            if "CREATE_CONTENT" in page.get("tasks", ("CREATE_CONTENT",)):
                yield page
            else:
                self.idle.append(name)

    def _listed(self, path: str, fields: str) -> Iterator[Json]:
        """Yield the objects of a list, with ids as text."""
        params = {"fields": fields, "limit": "100"}
        for _ in range(min(_LIST_PAGES_MAX, _REQUESTS_MAX - self.requests)):
            self.requests += 1
            reply = GRAPH.call(self.up, "identify", "GET", path, token=self.token, params=params)
            yield from (row | {"id": to_text(row["id"])} for row in list_data(reply) if to_text(row.get("id")))
            after = find_cursor(reply.record())
            if not after:
                return
            params = params | {"after": after}

    def _missing(self) -> Iterator[str]:
        if self.idle:
            yield f"It may not create content on {_names(self.idle)}."
        if self.closed:
            yield (
                f"A business portfolio has {_names(self.closed)}, but gives this person no access to it: "
                "a person with full control of the portfolio must assign the Page to them."
            )
        if BUSINESS not in self.granted:
            yield f"{BUSINESS} was not granted; without it Facebook does not list the Pages of business portfolios."
        elif self.refusal:
            yield f"The business portfolios could not be searched: {self.refusal}"
        elif not (self.idle or self.closed):
            yield f"It belongs to {self.portfolios or 'no'} business portfolio{'' if self.portfolios == 1 else 's'}."


def _names(found: Sequence[str]) -> str:
    more = len(found) - _NAMED
    return ", ".join(found[:_NAMED]) + (f" and {more} more" if more > 0 else "")
