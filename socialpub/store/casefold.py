"""How a text is compared in the search: two texts that look the same, in any case, have the same fold."""

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
# Conjoining jamo stay apart: composed, the letters of "ㅋㅠ" would be a syllable, and "ㅠ" would not be found in it.
_EXCEPT_JAMO = re.compile("[^\u1100-\u11ff]+")


def fold(text: str) -> str:
    """Return the text as it is searched: NFKC and casefolded, without invisible characters.

    It is Unicode's NFKC_Casefold, except that Hangul stays decomposed, and that the Turkish letters İ and ı equal i.
    Canonically and compatibly equivalent texts have one fold. The fold of a part, cut between two characters as a
    reader sees them, is a part of the fold.
    """
    if text.isascii():
        return text.lower()
    folded = _INVISIBLE.sub("", _decompose(text).casefold()).replace("\u0131", "i").replace("i\u0307", "i")
    # Letters that were separated by an invisible character may now combine; marks may be in another order.
    return _EXCEPT_JAMO.sub(lambda found: unicodedata.normalize("NFC", found[0]), _decompose(folded))


def _decompose(text: str) -> str:
    """Return the text in normalization form KD, in linear time. The two halfwidth marks are no marks before that."""
    marked = text.replace("\uff9e", "\u3099").replace("\uff9f", "\u309a")
    return unicodedata.normalize("NFKD", sort_marks(marked))


def fold_for_storage(text: str) -> str:
    """Return what is stored of a post's text: its fold, or nothing where SQLite can compute it from the text.

    SQLite's `lower` knows the letters of ASCII, and all letters where it was built with ICU: both must give the fold.
    """
    folded = fold(text)
    return "" if folded == text.lower() and folded.encode() == text.encode().lower() else folded
