"""Labels of the WHATWG Encoding Standard, and page titles in each encoding."""

from __future__ import annotations

LABELS: dict[str, tuple[str, ...]] = {
    "utf-8": tuple("unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8 ".split()),
    "ibm866": tuple("866 cp866 csibm866 ibm866 ".split()),
    "iso-8859-2": tuple(
        "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2 ".split()
    ),
    "iso-8859-3": tuple(
        "csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3 ".split()
    ),
    "iso-8859-4": tuple(
        "csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4 ".split()
    ),
    "iso-8859-5": tuple(
        "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988 ".split()
    ),
    "iso-8859-6": tuple(
        "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 iso-8859-6-e "
        "iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987 ".split()
    ),
    "iso-8859-7": tuple(
        "csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597 "
        "iso_8859-7 iso_8859-7:1987 sun_eu_greek ".split()
    ),
    "iso-8859-8": tuple(
        "csiso88598e csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-ir-138 iso8859-8 iso88598 "
        "iso_8859-8 iso_8859-8:1988 visual ".split()
    ),
    "iso-8859-8-i": tuple("csiso88598i iso-8859-8-i logical ".split()),
    "iso-8859-10": tuple("csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6 ".split()),
    "iso-8859-13": tuple("iso-8859-13 iso8859-13 iso885913 ".split()),
    "iso-8859-14": tuple("iso-8859-14 iso8859-14 iso885914 ".split()),
    "iso-8859-15": tuple("csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9 ".split()),
    "iso-8859-16": tuple("iso-8859-16 ".split()),
    "koi8-r": tuple("cskoi8r koi koi8 koi8-r koi8_r ".split()),
    "koi8-u": tuple("koi8-ru koi8-u ".split()),
    "macintosh": tuple("csmacintosh mac macintosh x-mac-roman ".split()),
    "windows-874": tuple("dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874 ".split()),
    "windows-1250": tuple("cp1250 windows-1250 x-cp1250 ".split()),
    "windows-1251": tuple("cp1251 windows-1251 x-cp1251 ".split()),
    "windows-1252": tuple(
        "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 "
        "iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252 ".split()
    ),
    "windows-1253": tuple("cp1253 windows-1253 x-cp1253 ".split()),
    "windows-1254": tuple(
        "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5 "
        "windows-1254 x-cp1254 ".split()
    ),
    "windows-1255": tuple("cp1255 windows-1255 x-cp1255 ".split()),
    "windows-1256": tuple("cp1256 windows-1256 x-cp1256 ".split()),
    "windows-1257": tuple("cp1257 windows-1257 x-cp1257 ".split()),
    "windows-1258": tuple("cp1258 windows-1258 x-cp1258 ".split()),
    "x-mac-cyrillic": tuple("x-mac-cyrillic x-mac-ukrainian ".split()),
    "gbk": tuple("chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk ".split()),
    "gb18030": tuple("gb18030 ".split()),
    "big5": tuple("big5 big5-hkscs cn-big5 csbig5 x-x-big5 ".split()),
    "euc-jp": tuple("cseucpkdfmtjapanese euc-jp x-euc-jp ".split()),
    "iso-2022-jp": tuple("csiso2022jp iso-2022-jp ".split()),
    "shift_jis": tuple("csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis ".split()),
    "euc-kr": tuple(
        "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 "
        "windows-949 ".split()
    ),
    "replacement": tuple("csiso2022kr hz-gb-2312 iso-2022-cn iso-2022-cn-ext iso-2022-kr replacement ".split()),
    "utf-16be": tuple("unicodefffe utf-16be ".split()),
    "utf-16le": tuple("csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le ".split()),
    "x-user-defined": tuple("x-user-defined ".split()),
}
"""encoding → its labels."""

_CODECS = {"ibm866": "cp866", "windows-874": "cp874", "x-mac-cyrillic": "mac_cyrillic", "macintosh": "mac_roman"}
_CODECS |= {"iso-8859-8-i": "iso8859_8", "big5": "big5hkscs", "shift_jis": "cp932", "euc-kr": "cp949"}
_TITLES = {
    "utf-8": "Größe 日本語 €",
    "ibm866": "Привет, мир",
    "iso-8859-2": "Zażółć gęślą jaźń",
    "iso-8859-3": "Ĥoĥo ĝis ŭ",
    "iso-8859-4": "Ģirts ķīvis",
    "iso-8859-5": "Привет №",
    "iso-8859-6": "مرحبا، عالم",
    "iso-8859-7": "Καλημέρα €",
    "iso-8859-8": "שלום עולם",
    "iso-8859-8-i": "שלום עולם",
    "iso-8859-10": "Ærø Đ þ ŋ",
    "iso-8859-13": "Žalgiris „ąę”",
    "iso-8859-14": "Ŵŷ ḃṡ",
    "iso-8859-15": "Œuvre à 5 €",
    "iso-8859-16": "Știință „țară”",
    "koi8-r": "Привет ёж",
    "koi8-u": "Їжак ґанок",
    "macintosh": "Naïve “œuvre” €",
    "windows-874": "ภาษาไทย “ก” …",
    "windows-1250": "Zażółć „gęślą”",
    "windows-1251": "Привет “№” ґ",
    "windows-1252": "It’s “new” – 5 €",
    "windows-1253": "Καλημέρα “€”",
    "windows-1254": "Şişli ğ “ı”",
    "windows-1255": "שָׁלוֹם “₪”",
    "windows-1256": "پنجره “لا” ژ",
    "windows-1257": "Žąsis “ęė”",
    "windows-1258": "Đương “₫”",
    "x-mac-cyrillic": "Привет “№”",
    "gbk": "朱镕基与喆 〇",
    "gb18030": "㐀 𠀀 喆 é",
    "big5": "香港嘅新聞 碁",
    "euc-jp": "日本語ニュース",
    "iso-2022-jp": "日本語ニュース",
    "shift_jis": "㈱髙島屋① ～",
    "euc-kr": "똠방각하 펲시콜라",
    "utf-16be": "utf sixteen é 日本 😀",
    "utf-16le": "utf sixteen é 日本 😀",
}
_BYTES = {  # what Python's codecs lack or have elsewhere
    "windows-1252": (b"C\xf4t\xe9 \x81", "Côté \x81"),
    "euc-jp": (b"\xad\xea\xad\xa1", "㈱①"),
    "koi8-u": (b"\xae\xbe", "ўЎ"),
    "gbk": (b"\x80 5", "€ 5"),
    "x-user-defined": (b"a\x80\xff", "a\uf780\uf7ff"),
}


def titles(encoding: str) -> list[tuple[bytes, str]]:
    """Titles in an encoding: the bytes, and what they say."""
    made = [_BYTES[encoding]] if encoding in _BYTES else []
    if encoding in _TITLES:
        text = _TITLES[encoding]
        made.append((text.encode(_CODECS.get(encoding, encoding)), text))
    return made
