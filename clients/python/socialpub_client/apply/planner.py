"""Plans: what differs between a calendar and the server, and the calls that change it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from socialpub_client import InvalidArgument, Socialpub, SocialpubError
from socialpub_client.account_names import find_account
from socialpub_client.apply.calendar import Calendar, Content, Entry, MediaEntry
from socialpub_client.apply.local_times import show_time
from socialpub_client.content import guess_kind
from socialpub_client.error_kinds import REFUSED, classify
from socialpub_client.models import Account, MediaFile, MediaRef, Post

INLINE_MAX = 8 << 20  # bytes of files in one check, before they are uploaded; as base64, two thirds of a request
DUPLICATE = "post.duplicate"
PASSED = "its time has passed"
PREVIEW = 200  # characters of a text that are shown
FILLED_IN = {"pinterest": ("boardId",)}
"""Options by platform that the server takes from the account where none is named: a file without them leaves them."""
Json = Mapping[str, Any]


@dataclass(frozen=True)
class QueuedPost:
    """Post of an entry at the server. `etag`, `options`: of queued ones only."""

    post: Post
    etag: str
    options: Json | None

    @property
    def is_queued(self) -> bool:
        """Return whether it can still be changed."""
        return self.post.status == "queued"


@dataclass(frozen=True)
class Create:
    """Publish an entry. `key`: the same for the same content after the same earlier batches."""

    entry: Entry
    at: datetime | None
    targets: Mapping[str, Content]
    key: str


@dataclass(frozen=True)
class Edit:
    """Change a queued post, if its version is still the one that was seen."""

    post: str
    etag: str
    text: str | None = None
    media: tuple[MediaEntry, ...] | None = None
    options: Json | None = None
    at: datetime | None = None


@dataclass(frozen=True)
class Cancel:
    """Cancel a queued post, if its version is still the one that was seen."""

    post: str
    etag: str


Step = Create | Edit | Cancel


@dataclass(frozen=True)
class Change:
    """Entry of a plan: `+` create, `~` change, `-` cancel, `=` keep, `!` cannot."""

    sign: str
    id: str
    title: str
    notes: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    seen: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def seen_by_steps(self) -> dict[str, str]:
        """Return the versions of the posts that the steps change."""
        return {step.post: step.etag for step in self.steps if not isinstance(step, Create)}


@dataclass(frozen=True)
class CalendarPlan:
    """Changes in the order of the file. `unnamed`: how many queued posts have no entry."""

    calendar: Calendar
    changes: tuple[Change, ...]
    unnamed: int

    @property
    def is_refused(self) -> bool:
        """Return whether an entry cannot be as the file says."""
        return any(change.sign == "!" for change in self.changes)

    @property
    def has_changes(self) -> bool:
        """Return whether applying it would change anything."""
        return any(change.sign in "+~-" for change in self.changes)


class Planner:
    """Compares a calendar with the server. It changes nothing there."""

    def __init__(self, sp: Socialpub, *, publish_late: bool = False, prune: bool = False) -> None:
        self._sp, self._publish_late, self._prune = sp, publish_late, prune
        self._accounts: dict[str, Account] = {}
        self._stored: dict[str, MediaFile | None] = {}
        self._hashes: dict[str, str] = {}

    def plan(self, calendar: Calendar) -> CalendarPlan:
        """Return the plan. Raises SocialpubError."""
        self._accounts = {account.id: account for account in self._sp.accounts.list()}
        posts = self._read_posts(calendar)
        changes = [self._plan_entry(calendar, entry, posts.pop(entry.id, [])) for entry in calendar.entries]
        orphans = {id: [post for post in each if post.is_queued] for id, each in posts.items()}
        if self._prune:
            changes += [_cancel_all(id, each, calendar.zone) for id, each in sorted(orphans.items()) if each]
        unnamed = 0 if self._prune else sum(map(len, orphans.values()))
        return CalendarPlan(calendar, tuple(changes), unnamed)

    def _read_posts(self, calendar: Calendar) -> dict[str, list[QueuedPost]]:
        """Return the posts at the server by entry; those that are queued with their version."""
        prefix = calendar.external_id("")
        found: dict[str, list[QueuedPost]] = {}
        for post in self._sp.posts.list(external_id_prefix=prefix, limit=200):
            if post.external_id is None or post.thread_of is not None:
                continue
            detail = self._sp.posts.get(post.id) if post.status == "queued" else None
            shown = QueuedPost(post, "", None) if detail is None else QueuedPost(post, detail.etag, detail.options)
            found.setdefault(post.external_id.removeprefix(prefix), []).append(shown)
        return found

    # --- One entry ---

    def _plan_entry(self, calendar: Calendar, entry: Entry, posts: Sequence[QueuedPost]) -> Change:
        live = [each for each in posts if each.post.status != "canceled"]
        title = f"{show_time(entry.at, calendar.zone)}  {', '.join(entry.targets)}"
        seen = {each.post.id: each.etag for each in live if each.is_queued}
        try:
            targets = self._resolve(entry.targets)
        except InvalidArgument as error:
            return Change("!", entry.id, title, (error.message,), (), seen)
        if not live:
            former = sorted({each.post.batch_id for each in posts})
            return self._create(calendar, entry, targets, title, former, ())
        queued = [each for each in live if each.is_queued]
        added = set(targets) - {each.post.account_id for each in live}
        if added and len(queued) == len(live):  # a batch gets no new targets: it is made again
            former = sorted({each.post.batch_id for each in posts})
            made = self._create(calendar, entry, targets, title, former, seen.items())
            sign = "~" if made.sign == "+" else made.sign
            return Change(sign, entry.id, title, ("to: other targets", *made.notes), made.steps, seen)
        if added:
            names = ", ".join(self._name(account) for account in sorted(added))
            return Change("!", entry.id, title, (f"a part is out already, so {names} cannot be added",), (), seen)
        return self._edit(calendar, entry, targets, live, title, seen)

    def _create(
        self,
        calendar: Calendar,
        entry: Entry,
        targets: Mapping[str, Content],
        title: str,
        former: Sequence[str],
        replaced: Collection[tuple[str, str]],
    ) -> Change:
        at: datetime | None = entry.at
        own = {post for post, _ in replaced}
        notes, faults = self._check(targets, at, own)
        if faults == [PASSED]:
            if not self._publish_late:
                return Change("!", entry.id, title, (f"{PASSED}; --late=publish publishes it now",))
            at = None
            notes, faults = self._check(targets, at, own)
        if faults:
            return Change("!", entry.id, title, (*notes, *faults))
        content = [
            content_to_json(content, with_file=False) | {"target": account} for account, content in targets.items()
        ]
        name = calendar.external_id(entry.id)
        hashed = json.dumps([name, content, entry.at.isoformat(), list(former)], sort_keys=True)
        key = f"{name[:63]}@{hashlib.sha256(hashed.encode()).hexdigest()}"  # the API takes 128 characters
        cancels = tuple(Cancel(post, etag) for post, etag in replaced)
        return Change("+", entry.id, title, tuple(notes), (*cancels, Create(entry, at, targets, key)))

    def _edit(
        self,
        calendar: Calendar,
        entry: Entry,
        targets: Mapping[str, Content],
        live: Sequence[QueuedPost],
        title: str,
        seen: Mapping[str, str],
    ) -> Change:
        notes: list[str] = []
        faults: list[str] = []
        steps: list[Step] = []
        edited: dict[str, Content] = {}
        for each in live:
            name = self._name(each.post.account_id)
            content = targets.get(each.post.account_id)
            if content is None:
                if each.is_queued:
                    notes.append(f"{name}: canceled")
                    steps.append(Cancel(each.post.id, each.etag))
                continue
            if each.is_queued:
                content = self._fill_in(each, content)
            differences = self._compare(each, content, entry.at, calendar.zone)
            if differences and not each.is_queued:
                faults += [f"{name}: {each.post.status} already, and different: {', '.join(differences)}"]
            elif differences:
                notes += [f"{name}: {field}: {change}" for field, change in differences.items()]
                steps.append(self._edit_step(each, content, entry.at, differences))
                edited[each.post.account_id] = content
        if edited and not faults:
            faults = self._check(edited, entry.at, set(seen))[1]
        if faults:
            return Change("!", entry.id, title, (*notes, *faults), (), seen)
        return Change("~" if steps else "=", entry.id, title, tuple(notes), tuple(steps), seen)

    def _edit_step(self, each: QueuedPost, content: Content, at: datetime, differences: Mapping[str, str]) -> Edit:
        return Edit(
            each.post.id,
            each.etag,
            content.text if "text" in differences else None,
            content.media if "media" in differences else None,
            content.options if "options" in differences else None,
            at if "at" in differences else None,
        )

    # --- Comparison ---

    def _fill_in(self, each: QueuedPost, content: Content) -> Content:
        """Add the options that the server filled in: an edit replaces all of them."""
        platform, stored = self._accounts[each.post.account_id].platform, each.options or {}
        kept = {name: stored[name] for name in FILLED_IN.get(platform, ()) if name in stored}
        return replace(content, options={"platform": platform, **kept, **(content.options or {})})

    def _compare(self, each: QueuedPost, content: Content, at: datetime, zone: str | None) -> dict[str, str]:
        """Return what differs, by field; options only of queued posts, since others are not read."""
        post, found = each.post, dict[str, str]()
        went_late = post.scheduled_at is None and at <= post.created_at  # --late=publish
        if post.scheduled_at != at and not went_late:
            shown = show_time(post.scheduled_at, zone) if post.scheduled_at else "now"
            found["at"] = f"{shown} -> {show_time(at, zone)}"
        if post.text != content.text:
            found["text"] = f"{_preview(post.text)} -> {_preview(content.text)}"
        if not self._is_same_media(post.media_refs, content.media):
            found["media"] = f"{len(post.media_refs)} -> {len(content.media)} items"
        if each.is_queued and (changed := _list_option_changes(each.options or {}, content.options or {})):
            found["options"] = ", ".join(changed)
        return found

    def _is_same_media(self, refs: Sequence[MediaRef], media: Sequence[MediaEntry]) -> bool:
        return len(refs) == len(media) and all(map(self._is_same_item, refs, media))

    def _is_same_item(self, ref: MediaRef, item: MediaEntry) -> bool:
        if (ref.alt_text or None) != (item.alt or None):
            return False
        if item.url is not None or item.id is not None:
            return (ref.url, ref.media_id) == (item.url, item.id)
        if ref.media_id is None or item.sha256 is None:
            return False
        stored = self.find_stored(item.sha256)
        return (stored is not None and stored.id == ref.media_id) or self._hash_of(ref.media_id) == item.sha256

    def _hash_of(self, media: str) -> str:
        if media not in self._hashes:
            self._hashes[media] = self._sp.media.get(media).sha256
        return self._hashes[media]

    def find_stored(self, sha256: str) -> MediaFile | None:
        """Return the file at the server with these bytes, or None."""
        if sha256 not in self._stored:
            self._stored[sha256] = self._sp.media.find(sha256=sha256)
        return self._stored[sha256]

    # --- Checks ---

    def _check(
        self, targets: Mapping[str, Content], at: datetime | None, own: Collection[str]
    ) -> tuple[list[str], list[str]]:
        """Ask the server; return previews and warnings, and the rules that content breaks.

        The server's clock says what has passed: this machine's may be wrong.
        `own`: the posts that this content replaces, of which it is no duplicate.
        """
        notes = [f"{self._name(account)}: {_preview(content.text)}" for account, content in targets.items()]
        time = {} if at is None else {"scheduledAt": at.isoformat()}
        sizes = {account: self._inline_bytes(content) for account, content in targets.items()}
        results = list[Json]()
        try:
            for group in _group(sizes):
                bodies = [self._check_body(account, targets[account], sizes[account]) for account in group]
                results += self._validate({"targets": bodies, **time}, own)
        except SocialpubError as error:
            if classify(error) is not REFUSED:
                raise
            return notes, [PASSED if error.rule == "scheduledAt.future" else str(error)]
        faults: list[str] = []
        for result, account in zip(results, targets, strict=False):
            is_unseen = sizes[account] > INLINE_MAX
            if is_unseen:
                limit = f"{INLINE_MAX >> 20} MiB"
                notes.append(f"{self._name(account)}: files over {limit} that the server does not have are not checked")
            for warning in result["warnings"]:
                if any(post in warning["message"] for post in own):
                    continue  # it names the post as its duplicate
                notes.append(f"{self._name(account)}: warning: {warning['message']} ({warning['code']})")
            for fault in result["errors"]:
                rule = fault.get("rule") or fault["code"]
                if is_unseen and ".media." in rule:  # they were not sent
                    continue
                faults.append(f"{self._name(account)}: {fault['message']} {fault.get('remediation', '')} ({rule})")
        return notes, faults

    def _validate(self, body: Json, own: Collection[str]) -> Sequence[Json]:
        """Return the results of a check. Raises SocialpubError."""
        path = "/v1/posts/validate"
        try:
            return list(self._sp.request("POST", path, body).json["results"])
        except SocialpubError as error:
            if error.rule != DUPLICATE or any(each["postId"] not in own for each in error.platform_response):
                raise
        return list(self._sp.request("POST", path, {**body, "onDuplicate": "warn"}).json["results"])

    def _inline_bytes(self, content: Content) -> int:
        """Return the bytes of the files that the server does not have."""
        files = [item for item in content.media if item.file is not None]
        return sum(
            Path(item.file or "").stat().st_size for item in files if self.find_stored(item.sha256 or "") is None
        )

    def _check_body(self, account: str, content: Content, size: int) -> dict[str, Any]:
        """Return a target of a check, without its media where their files are too large."""
        items = [self._check_item(item) for item in content.media] if size <= INLINE_MAX else []
        body: dict[str, Any] = {"accountId": account, "text": content.text, "media": items}
        return body | ({"options": content.options} if content.options else {})

    def _check_item(self, item: MediaEntry) -> Json:
        """Return a media item of a check, with the bytes of a file that the server does not have."""
        alt = {"altText": item.alt} if item.alt else {}
        if item.url is not None:
            return {"kind": guess_kind(item.url), "url": item.url, **alt}
        stored = self._sp.media.get(item.id) if item.id is not None else self.find_stored(item.sha256 or "")
        if stored is not None:
            return {"kind": stored.kind, "mediaId": stored.id, **alt}
        path = Path(item.file or "")
        encoded = base64.b64encode(path.read_bytes()).decode()
        return {"kind": guess_kind(path.name), "bytesBase64": encoded, **alt}

    # --- Accounts ---

    def _resolve(self, targets: Mapping[str, Content]) -> dict[str, Content]:
        """Return the content by account id. Raises InvalidArgument for a target without one."""
        found: dict[str, Content] = {}
        for target, content in targets.items():
            account = find_account(self._accounts.values(), target)
            if account.id in found:
                raise InvalidArgument(f"{target} is the account of another target")
            options = None if content.options is None else {"platform": account.platform, **content.options}
            found[account.id] = Content(content.text, content.media, options)
        return found

    def _name(self, account: str) -> str:
        return self._accounts[account].platform if account in self._accounts else account


def _group(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Yield accounts in order, in groups whose files a check has room for."""
    group, total = list[str](), 0
    for account, size in sizes.items():
        needed = size if size <= INLINE_MAX else 0
        if total + needed > INLINE_MAX:
            yield group
            group, total = [], 0
        group.append(account)
        total += needed
    yield group


def _cancel_all(id: str, posts: Sequence[QueuedPost], zone: str | None) -> Change:
    first = posts[0].post
    title = f"{show_time(first.scheduled_at, zone) if first.scheduled_at else 'now'}  {_preview(first.text)}"
    steps = tuple(Cancel(each.post.id, each.etag) for each in posts)
    return Change("-", id, title, (), steps, {each.post.id: each.etag for each in posts})


def _list_option_changes(before: Json, after: Json) -> list[str]:
    """Name the options that differ, in file order; `platform` is the tag of their type."""
    changed = [name for name, value in after.items() if name != "platform" and before.get(name) != value]
    return changed + [f"{name} removed" for name in before if name not in after]


def _preview(text: str) -> str:
    shown = " ".join(text.split())
    return f'"{shown[:PREVIEW]}{"…" if len(shown) > PREVIEW else ""}"'


def content_to_json(content: Content, *, with_file: bool = True) -> dict[str, Any]:
    """Return content as JSON; without the names of files it is the same wherever they are."""
    names = ("file", "sha256", "id", "url", "alt") if with_file else ("sha256", "id", "url", "alt")
    media = [{name: value for name in names if (value := getattr(item, name)) is not None} for item in content.media]
    return {"text": content.text, "media": media, "options": content.options}
