"""Seeded generator of sample texts in many scripts, with links, tags and mentions."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

WORDS = {
    "Latin": ["bread", "Größe", "cafe\u0301", "ﬁne", "ñandú", "snake_case", "tag-one", "a1"],
    "Greek": ["ψωμί", "Άρτος", "ἄρτος"],
    "Cyrillic": ["хлеб", "Ёлка", "паляниця"],
    "Armenian": ["հաց", "բարև"],
    "Georgian": ["პური", "გამარჯობა"],
    "Hebrew": ["לחם", "שָׁלוֹם", 'צה"ל'],
    "Arabic": ["خبز", "مَرْحَبًا", "١٢٣"],
    "Persian": ["می\u200cخواهم", "نان\u200cها", "خانه\u200cام", "۱۲۳"],
    "Urdu": ["روٹی", "کے\u200cلیے"],
    "Devanagari": ["रोटी", "क्\u200dष", "क्\u200cष", "श्री", "१२३"],
    "Bengali": ["রুটি", "র\u200d্য", "ক্\u200cত"],
    "Gurmukhi": ["ਰੋਟੀ", "ਪੰਜਾਬੀ"],
    "Gujarati": ["રોટલી", "ક્\u200dષ"],
    "Tamil": ["ரொட்டி", "ஸ்ரீ"],
    "Telugu": ["రొట్టె", "క్\u200cష"],
    "Kannada": ["ರೊಟ್ಟಿ", "ರ\u200d್ಯ"],
    "Malayalam": ["അപ്പം", "ന്\u200dറെ", "അവന്\u200d"],
    "Sinhala": ["පාන්", "ශ්\u200dරී", "ක්\u200dෂ"],
    "Thai": ["ขนมปัง", "น้ำใจ"],
    "Lao": ["ເຂົ້າຈີ່"],
    "Khmer": ["នំប៉័ង", "ក្\u200bខ"],
    "Burmese": ["ပေါင်မုန့်"],
    "Tibetan": ["བག་ལེབ", "བོད་སྐད"],
    "Ethiopic": ["ዳቦ", "ሰላም"],
    "Hangul": ["빵", "\u1112\u1161\u11ab", "안녕하세요"],
    "Han": ["麵包", "北京", "𠮷野家"],
    "Kana": ["パン", "こんにちは", "ﾊﾟﾝ", "お\u3099"],
    "Emoji": [
        "🥖",
        "👩\u200d🍳",
        "👨\u200d👩\u200d👧",
        "🏳\ufe0f\u200d🌈",
        "🇫🇷",
        "1\ufe0f\u20e3",
        "👍🏽",
        "❤\ufe0f",
        "#\ufe0f\u20e3",
        "✈\ufe0e",
    ],
    "digits": ["1", "2026", "３", "½", "Ⅳ", "7up", "²"],
}
JOINERS = [
    "\u200d",
    "\u200c",
    "\u00ad",
    "\u2060",
    "\u200b",
    "\u200a",
    "\ufe0f",
    "\ufe0e",
    "\u20e2",
    "\u20e3",
    "\u0301",
    "\u0345",
]
STOPS = [
    *".,!?;:…)('\"*&/~-_",
    "’",
    "”",
    "»",
    "。",
    "、",
    "！",
    "？",
    "」",
    "）",
    "،",
    "؛",
    "؟",
    "।",
    "॥",
    "።",
    "፣",
    "։",
    "׃",
    "།",
    "៖",
    "•",
]
SPACES = [" "] * 8 + [
    "\n",
    "\n\n",
    "\u3000",
    "\u00a0",
    "\u2028",
    "\u2009",
    "\ufeff",
    "\t",
    "\x85",
    "\x1c",
    "\u180e",
    "\u202b",
    "\u2066",
    "\x01",
]
SIGILS = ["#", "#", "#", "＃", "##", "@", "$", "&", "(#", "#\ufe0f"]
NAMES = [
    "@alice.test",
    "@bob.bsky.social",
    "@a-b.example.com",
    "@no",
    "@x.invalid",
    "@1.com",
    "@bob.bsky.social-",
    "@a.com@b.org",
]
TICKERS = ["$TSLA", "$tsla", "$A", "$BRK.B", "$TOOLONG", "$1", "$a1b2", "$ü"]
LINKS = [
    *(
        "https://example.com",
        "https://example.com/a_(b)",
        "http://example.com/a?b=c&d=%20#e",
        "https://example.com:8080/x",
    ),
    *("https://t.co/abc", "https://例え.jp/路", "https://en.wikipedia.org/wiki/Łódź", "https://example.com/日本"),
    *("example.com", "example.org/a", "example.co.uk", "bbc.co.uk/news?x=1"),
]
Chance = random.Random


def _word(chance: Chance) -> str:
    return chance.choice(WORDS[chance.choice(sorted(WORDS))])


def _token(chance: Chance) -> str:
    """Something that may be a tag, a name, a ticker, or none of them by a hair."""
    kind = chance.randrange(10)
    if kind == 0:
        return chance.choice(NAMES) + chance.choice(["", "", *STOPS, _word(chance)])
    if kind in (1, 2):
        return chance.choice(TICKERS) + chance.choice(["", "", *STOPS, *JOINERS, _word(chance)])
    parts = [_word(chance) for _ in range(chance.randrange(1, 4))]
    joined = chance.choice(["", "", "_", *JOINERS, *STOPS]).join(parts)
    ends = "".join(chance.choice(STOPS + JOINERS) for _ in range(chance.choice([0, 0, 1, 1, 2, 3])))
    return chance.choice([*SIGILS, "", ""]) + joined + ends


def make_tagged_text(chance: Chance) -> str:
    """Tags, names and tickers, with any punctuation, joiners and white space, and no link."""
    return "".join(_token(chance) + chance.choice(SPACES) for _ in range(chance.randrange(1, 7)))


def make_linked_text(chance: Chance) -> str:
    """Links among words, as people write them: after white space or `(`, with closing punctuation behind."""
    made = []
    for _ in range(chance.randrange(1, 5)):
        opening, closing = chance.choice([("", ""), ("", ""), ("(", ")")])
        thing = chance.choice([chance.choice(LINKS), "#" + _word(chance), _word(chance)])
        ends = "".join(chance.choice(CLOSING) for _ in range(chance.choice([0, 0, 0, 1, 2])))
        made.append(f"{opening}{thing}{closing}{ends}")
    return chance.choice([" ", "\n", "\u3000"]).join(made)


CLOSING = ".,;:!?…\"'’”»」』）。、！？，：；،؛؟।॥።፣։׃།៖។၊။۔"


def texts(seed: int, count: int, make: Callable[[Chance], str]) -> Iterator[str]:
    chance = random.Random(seed)
    return (make(chance) for _ in range(count))
