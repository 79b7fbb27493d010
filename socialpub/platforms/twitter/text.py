"""Text of X: links, cashtags, and the weighted length that is compared with 280.

The rules are those of twitter-text 3 (github.com/twitter/twitter-text, config v3.json and conformance files), which
docs.x.com names as its reference. All functions take linear time for any text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from socialpub.platforms.kit.lazy_patterns import compile_lazily
from socialpub.platforms.kit.text import normalize_nfc
from socialpub.platforms.kit.tlds import LONGEST, TLDS

if TYPE_CHECKING:
    import regex

TEXT_MAX_PAID = 25_000
URL_WEIGHT = 23
_URL_CHARS_MAX = 4096  # with a protocol or without, as in twitter-text's Java, Objective-C and C# libraries
_LABEL_MAX = 63  # RFC 1035, of the ASCII form
_TCO_SLUG_MAX = 40

# --- Weighted length -----------------------------------------------------------------------------------------------

_LIGHT = compile_lazily(r"[\u0000-\u10ff\u2000-\u200d\u2010-\u201f\u2032-\u2037]")
_EMOJI = compile_lazily(
    r"""
      [0-9\#*]\ufe0f?\u20e3                                    # keycaps
    | \p{Regional_Indicator}{2}                                # flags of countries
    | \U0001f3f4[\U000e0020-\U000e007e]+\U000e007f             # flags of regions
    | (?: \p{Emoji_Modifier_Base}\p{Emoji_Modifier}
        | [\u00a9\u00ae\u2122]\ufe0f                           # letters, unless shown as pictures
        | (?=[\U0001f000-\U0001ffff])(?![\U0001f004\U0001f21a\U0001f22f])\p{Emoji_Presentation}  # always pictures
        | (?![\u00a9\u00ae\u2122])\p{Extended_Pictographic}(?:\ufe0f|(?!\ufe0e))
      )
      (?: \u200d
        (?: \p{Emoji_Modifier_Base}\p{Emoji_Modifier}
          | (?=[\U0001f000-\U0001ffff])(?![\U0001f004\U0001f21a\U0001f22f])\p{Emoji_Presentation}
          | \p{Extended_Pictographic}\ufe0f?
        )
      )*
    """,
    "x",
)


@lru_cache(maxsize=64)  # targets of a batch usually share a text
def weighted_length(text: str) -> int:
    """Measure as X: Latin and other light characters 1, the rest 2, an emoji 2, a link 23.

    Links are searched up to the longest allowed post; beyond that each character is counted.
    """
    text = normalize_nfc(text)
    total, last = 0, 0
    for url in find_urls(text):
        total += _weight(text[last : url.start]) + URL_WEIGHT
        last = url.end
        if total > TEXT_MAX_PAID:
            break
    return total + _weight(text[last:])


def _weight(text: str) -> int:
    if text.isascii():
        return len(text)  # contains no emoji, and is all light
    rest: str
    emoji: int
    rest, emoji = _EMOJI.subn("", text)
    return 2 * emoji + 2 * len(rest) - len(_LIGHT.findall(rest))


# --- Cashtags ------------------------------------------------------------------------------------------------------

_BEFORE = r"\t-\r \x85\u00a0\u1680\u180e\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # the library's white space
_AFTER = r"\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"  # ECMAScript's white space
_CASHTAG = compile_lazily(
    rf"(?<![^{_BEFORE}])\$([A-Za-z]{{1,6}}(?:[._][A-Za-z]{{1,2}})?)(?=\Z|[{_AFTER}!#-/:-@\[-_{{-~])"
)


def find_cashtags(text: str) -> list[str]:
    """Find the stock symbols that X links, without `$`."""
    return _CASHTAG.findall(text) if "$" in text else []


# --- Links ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DetectedUrl:
    """Link that X detects, as a half-open range of the text."""

    start: int
    end: int


# A host may hold anything but ASCII punctuation, white space, controls and general punctuation (directional marks too).
_HOST = r"[^\x00-\x2c\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x9f\s\u061c\u2000-\u206f\ufeff\ufffe\uffff]"  # and . - _
_RUN = compile_lazily(_HOST + "+")
_PROTOCOL = compile_lazily(r"https?://", "i")
_NOT_BEFORE = compile_lazily(r"[A-Za-z0-9@\uff20$#\uff03\ufffe\ufeff\uffff]")
_LATIN = (
    r"\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0253\u0254\u0256\u0257\u0259\u025b\u0263\u0268\u026f\u0272"
    r"\u0289\u028b\u02bb\u0300-\u036f\u1e00-\u1eff"
)
_ASCII_RUN = compile_lazily(rf"[-a-z0-9{_LATIN}]++(\.)?+", "i")
_PUNYCODE = compile_lazily(r"xn--[-0-9a-z]+", "i")
_END = rf"a-z0-9=_\#/+\-\u0400-\u04ff{_LATIN}"  # characters that may end a path
_INNER = r"!*';:,.$%\[\]\u2013~@|&"  # characters allowed before that
_PARENTHESES = rf"\([{_INNER}{_END}]*+(?:\([{_INNER}{_END}]++\)[{_INNER}{_END}]*+)?+\)"
_TAIL = compile_lazily(
    rf"(?::[0-9]+)?+(?P<path>/(?:[{_INNER}]*+(?:[{_END}]++|{_PARENTHESES}))*+)?+"
    r"(?:\?(?:[!?*'@();:$%\[\].,~|]*+[a-z0-9\-_&=\#/+]++)++)?+",
    "i",
)
_TCO = compile_lazily(r"https?://t\.co/([a-z0-9]+)(?:\?(?:[!?*'@();:$%\[\].,~|]*+[a-z0-9\-_&=\#/+]++)++)?+", "i")


def find_urls(text: str) -> Iterator[DetectedUrl]:
    """Find the links of a text in order, with or without `https://`."""
    if "." not in text:
        return  # every link has one
    done = 0  # everything before belongs to an earlier match
    for found in _RUN.finditer(text):
        if "." not in found[0] or found.end() <= done:
            continue
        run = _HostRun(text, found.start(), found.end())
        start = _protocol_before(text, run.start, done)
        end = run.domain_end(0, run.start) if start is not None else None
        if start is not None and end is not None:
            url, done = _with_protocol(text, start, run.start, end)
            yield from url
        while (domain := run.next_domain(done)) is not None:
            bare, done = _without_protocol(text, *domain)
            yield from bare


@lru_cache(maxsize=64)
def has_link(text: str) -> bool:
    """Return whether X links anything in a text."""
    return next(find_urls(text), None) is not None


def _protocol_before(text: str, host: int, done: int) -> int | None:
    for length in (8, 7):
        start = host - length
        if start >= 0 and _PROTOCOL.fullmatch(text, start, host):
            fits = start == 0 or (start > done and not _NOT_BEFORE.match(text, start - 1))
            return start if fits else None
    return None


def _with_protocol(text: str, start: int, host: int, end: int) -> tuple[list[DetectedUrl], int]:
    tail = _TAIL.match(text, end)
    full = tail.end() if tail else end
    if tco := _TCO.match(text, start, full):
        return [DetectedUrl(start, tco.end())] if len(tco[1]) <= _TCO_SLUG_MAX else [], full
    fits = full - start <= _URL_CHARS_MAX and _is_host(text[host:end])
    return ([DetectedUrl(start, full)] if fits else []), full


def _is_host(domain: str) -> bool:
    """Return whether every label fits the DNS in its ASCII form."""
    if domain[:4].lower() == "xn--" and not domain.isascii():
        return False
    return all(1 <= _ascii_length(label) <= _LABEL_MAX for label in domain.split("."))


def _ascii_length(label: str) -> int:
    # The ASCII form is never shorter, and a long one takes quadratic time to compute.
    plain = label.isascii() or len(label) > _LABEL_MAX
    return len(label) if plain else 4 + len(label.encode("punycode"))


def _without_protocol(text: str, start: int, end: int) -> tuple[list[DetectedUrl], int]:
    """Find the ASCII parts of a bare domain, which alone are links; the last one gets the path."""
    tail = _TAIL.match(text, end)
    full = tail.end() if tail else end
    if start and text[start - 1] in "-_./":
        return [], full
    found = [url for url in _ascii_domains(text, start, end) if _is_host(text[url.start : url.end])]
    if found and tail and tail["path"]:
        found[-1] = DetectedUrl(found[-1].start, full)
    return [url for url in found if url.end - url.start <= _URL_CHARS_MAX], full


def _ascii_domains(text: str, start: int, end: int) -> list[DetectedUrl]:
    if (domain := text[start:end]).isascii() and "_" not in domain:
        return [DetectedUrl(start, end)]  # one chain of labels, up to the top-level domain that ends it
    found: list[DetectedUrl] = []
    chain = good = None
    at = start
    while label := next(_ascii_labels(text, at, end), None):
        if label.start() != at or chain is None:
            found += [DetectedUrl(chain, good)] if chain is not None and good is not None else []
            chain, good = label.start(), None
        at = label.end()
        good = _tld_end(text, at, end) or good
        # A top-level domain followed by other letters ("com中国") ends the chain; the rest begins a new one.
        if good is not None and good >= at and not _begins_with_label(text, at, end):
            at = good
    return found + ([DetectedUrl(chain, good)] if chain is not None and good is not None else [])


def _ascii_labels(text: str, at: int, end: int) -> Iterator[regex.Match[str]]:
    """Find unbroken ASCII (or Latin) runs that end with a dot."""
    return (run for run in _ASCII_RUN.finditer(text, at, end) if run[1])


def _begins_with_label(text: str, at: int, end: int) -> bool:
    run = _ASCII_RUN.match(text, at, end)
    return bool(run and run[1])


def _tld_end(text: str, at: int, end: int) -> int | None:
    """Return the end of a top-level domain that begins at `at`, or None."""
    dot = text.find(".", at, end)  # a top-level domain has none
    stop = min(end if dot < 0 else dot, at + LONGEST + 1)
    label = text[at:stop]
    if label.isascii() and label.isalnum():  # each character is glued to the one before
        is_whole = len(label) <= LONGEST and label.lower() in TLDS
        return stop if is_whole and not _is_glued(text[stop : stop + 1]) else None
    if punycode := _PUNYCODE.match(text, at, end):
        return int(punycode.end())
    for size in range(min(LONGEST, stop - at), 1, -1):
        if not _is_glued(text[at + size : at + size + 1]) and text[at : at + size].lower() in TLDS:
            return at + size
    return None


def _is_glued(after: str) -> bool:
    """Return whether the character after a label makes it no top-level domain."""
    return after != "" and after.isascii() and (after.isalnum() or after in "@+-")


class _HostRun:
    """Run of host characters, dots, hyphens and underscores, split into labels once.

    `reach[k]`: the furthest label that ends a domain containing all of label k, or None.
    """

    def __init__(self, text: str, start: int, end: int) -> None:
        self.text, self.start, self.end = text, start, end
        self.labels: list[tuple[int, int]] = []
        for label in text[start:end].split("."):
            self.labels.append((start, start + len(label)))
            start += len(label) + 1
        self.tlds = [_tld_end(text, at, stop) for at, stop in self.labels]
        self.reach: list[int | None] = [None] * (len(self.labels) + 1)
        for index in range(len(self.labels) - 1, -1, -1):
            self.reach[index] = self._furthest(index, self.labels[index][0])
        self.next = 0

    def _furthest(self, index: int, at: int) -> int | None:
        stop = self.labels[index][1]
        if at >= stop or self.text[at] in "-_" or self.text[stop - 1] in "-_":
            return None
        if (far := self.reach[index + 1]) is not None:
            return far
        is_name = self.text.find("_", at, stop) < 0
        return index + 1 if is_name and index + 1 < len(self.labels) and self.tlds[index + 1] else None

    def domain_end(self, index: int, at: int) -> int | None:
        """Return the end of the longest domain that begins at `at`, in label `index`."""
        far = self._furthest(index, at)
        return None if far is None else self.tlds[far]

    def next_domain(self, done: int) -> tuple[int, int] | None:
        """Find the next domain without protocol after `done`, leaving one character before it."""
        while self.next < len(self.labels) - 1:
            index, self.next = self.next, self.next + 1
            at, stop = self.labels[index]
            if stop <= done:
                continue
            start = self._first_start(index, max(at, done + 1 if done else 0), stop)
            if start is not None and (end := self.domain_end(index, start)) is not None:
                return start, end
        return None

    def _first_start(self, index: int, at: int, stop: int) -> int | None:
        if self.reach[index + 1] is None:
            if self.tlds[index + 1] is None:
                return None
            at = max(at, self.text.rfind("_", at, stop) + 1)
        for start in range(at, stop):
            before = start == 0 or not _NOT_BEFORE.match(self.text, start - 1)
            if before and self.text[start] not in "-_":
                return start
        return None
