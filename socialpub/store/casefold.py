"""Case folding for search: texts that look the same in any case have the same fold."""

from __future__ import annotations

import re
import unicodedata

from socialpub.platforms.kit.text import sort_marks

# Unicode's Default_Ignorable_Code_Point (joiners, soft hyphens, direction marks, variation selectors), and the Arabic
# tatweel, which only stretches a word.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u0640\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)
# Conjoining jamo stay decomposed: "ㅋㅠ" composed would be one syllable, in which "ㅠ" would not be found.
_EXCEPT_JAMO = re.compile("[^\u1100-\u11ff]+")


def fold(text: str) -> str:
    """Return the text as it is searched: NFKC, casefolded, without invisible characters.

    It is Unicode's NFKC_Casefold, except that Hangul stays decomposed, and that the Turkish letters İ and ı equal i.
    Canonically and compatibly equivalent texts have one fold. The fold of a part, cut between two grapheme clusters, is
    a part of the fold.
    """
    if text.isascii():
        return text.lower()
    folded = _INVISIBLE.sub("", _decompose(text).casefold()).replace("\u0131", "i").replace("i\u0307", "i")
    # Without the invisible characters, letters may combine and marks may be in another order.
    return _EXCEPT_JAMO.sub(lambda found: unicodedata.normalize("NFC", found[0]), _decompose(folded))


def _decompose(text: str) -> str:
    """Return the text in normalization form KD, in linear time.

    The two halfwidth sound marks are replaced first: they are no combining marks.
    """
    marked = text.replace("\uff9e", "\u3099").replace("\uff9f", "\u309a")
    return unicodedata.normalize("NFKD", sort_marks(marked))


def fold_for_storage(text: str) -> str:
    """Return the fold to store with a post; "" if SQLite's `lower` gives the fold.

    `lower` maps only ASCII letters, or all if SQLite was built with ICU: both must give the fold.
    """
    folded = fold(text)
    return "" if folded == text.lower() and folded.encode() == text.encode().lower() else folded
