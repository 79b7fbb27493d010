"""Which addresses and spellings the guard lets through. The table: Smokescreen's and Svix's cases, and our own."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from socialpub.base.http import ssrf

PRIVATE4 = (
    "0.0.0.0 0.1.2.3 10.0.0.0 10.0.0.1 10.255.255.255 100.64.0.0 100.100.100.200 100.127.255.255 127.0.0.0 127.0.0.1 "
    "127.0.0.53 127.255.255.255 169.254.0.0 169.254.169.254 169.254.170.2 169.254.255.255 172.16.0.0 172.16.0.1 "
    "172.31.255.255 192.0.0.0 192.0.0.1 192.0.0.170 192.0.0.192 192.0.2.1 192.31.196.1 192.52.193.1 192.88.99.1 "
    "192.168.0.0 192.168.1.1 192.168.255.255 192.175.48.1 198.18.0.0 198.19.255.255 198.51.100.7 203.0.113.9 "
    "168.63.129.16 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.254 255.255.255.255"
).split()
PRIVATE6 = (
    ":: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:10.0.0.1 ::ffff:8.8.8.8 ::ffff:0:127.0.0.1 "
    "64:ff9b::a00:1 64:ff9b::7f00:1 64:ff9b::8.8.8.8 64:ff9b:1::1 100::1 2001::1 2001:0:7f00:1::1 2001:2::1 "
    "2001:10::1 2001:20::1 2001:1ff:ffff::1 2001:db8::1 2002:7f00:1::1 2002:a00:1::1 2002:c0a8:101::1 2620:4f:8000::1 "
    "3fff::1 3fff:fff::1 4000::1 5f00::1 fc00::1 fd00::1 fd00:ec2::254 fdff:ffff::1 fe80::1 fe80::1%eth0 "
    "2606:4700::1111%eth0 fec0::1 ff02::1 ff0e::1 fe80::a9fe:a9fe"
).split()
PUBLIC = (
    "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 93.184.216.34 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 "
    "168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 191.255.255.255 192.0.1.0 "
    "192.0.3.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 203.0.112.255 203.0.114.0 223.255.255.255 "
    "2606:4700:4700::1111 2001:4860:4860::8888 2a00:1450:4001:80b::200e 2001:200::1 2003::1 2400:cb00::1"
).split()


@pytest.mark.parametrize("address", PRIVATE4 + PRIVATE6)
def test_inner_and_special_addresses_are_refused(address: str) -> None:
    assert not ssrf.is_public_address(address)
    assert not ssrf.may_connect(address, 443)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_pass(address: str) -> None:
    assert ssrf.is_public_address(address)


def test_the_table_is_large_enough() -> None:
    assert len(set(PRIVATE4 + PRIVATE6 + PUBLIC)) >= 80


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "1.2.3", "01.2.3.4", "1.2.3.4.5", "1.2.3.4 ", "::g"])
def test_what_is_no_address_is_not_public(text: str) -> None:
    assert not ssrf.is_public_address(text)


@given(st.ip_addresses(v=4))
def test_a_mapped_or_translated_address_never_gets_further_than_the_address_itself(
    address: ipaddress.IPv4Address,
) -> None:
    assert not ssrf.is_public_address(f"::ffff:{address}")
    assert not ssrf.is_public_address(f"64:ff9b::{address}")


# --- URLs ----------------------------------------------------------------------------------------------------------

NO_NAME, PRIVATE, PRIVATE_NAME = "its host is not a name", "its address is private", "its host is private"
NO_URL, NO_HOST = "it is not a URL", "it has no host"

REFUSED = {
    "https://127.0.0.1/": PRIVATE,
    "https://127.0.0.1.": PRIVATE,
    "https://127.1/": NO_NAME,
    "https://127.0.1/": NO_NAME,
    "https://2130706433/": NO_NAME,
    "https://0/": NO_NAME,
    "https://0x7f000001/": NO_NAME,
    "https://0X7F000001/": NO_NAME,
    "https://0x7f.0.0.1/": NO_NAME,
    "https://127.0.0.0x1/": NO_NAME,
    "https://0177.0.0.1/": NO_URL,
    "https://017700000001/": NO_NAME,
    "https://00127.0.0.1/": NO_URL,
    "https://127.0.0.1.1/": NO_NAME,
    "https://256.256.256.256/": NO_URL,
    "https://example.1/": NO_NAME,
    "https://example.0x/": NO_NAME,
    "https://①②⑦.⓪.⓪.①/": NO_URL,
    "https://１２７.0.0.1/": NO_URL,
    "https://127。0。0。1/": PRIVATE,
    "https://[::1]/": PRIVATE,
    "https://[::]/": PRIVATE,
    "https://[::ffff:127.0.0.1]/": PRIVATE,
    "https://[::ffff:7f00:1]/": PRIVATE,
    "https://[0:0:0:0:0:ffff:7f00:1]/": PRIVATE,
    "https://[::127.0.0.1]/": PRIVATE,
    "https://[64:ff9b::7f00:1]/": PRIVATE,
    "https://[fe80::1%25eth0]/": PRIVATE,
    "https://[fd00:ec2::254]/": PRIVATE,
    "https://169.254.169.254/latest/meta-data/": PRIVATE,
    "https://100.100.100.200/": PRIVATE,
    "https://168.63.129.16/": PRIVATE,
    "https://192.0.0.192/": PRIVATE,
    "https://metadata/": PRIVATE_NAME,
    "https://metadata.google.internal/computeMetadata/v1/": PRIVATE_NAME,
    "https://METADATA.GOOGLE.INTERNAL./": PRIVATE_NAME,
    "https://metadata.goog/": PRIVATE_NAME,
    "https://instance-data/": PRIVATE_NAME,
    "https://instance-data.ec2.internal/": PRIVATE_NAME,
    "https://localhost/": PRIVATE_NAME,
    "https://localhost./": PRIVATE_NAME,
    "https://LOCALHOST/": PRIVATE_NAME,
    "https://loc\u00adalhost/": NO_URL,
    "https://ｌocalhost/": NO_URL,
    "https://a.localhost/": PRIVATE_NAME,
    "https://printer.local/": PRIVATE_NAME,
    "https://nas.home.arpa/": PRIVATE_NAME,
    "https://router.lan/": PRIVATE_NAME,
    "https://db.svc.cluster.local/": PRIVATE_NAME,
    "https://kubernetes.default.svc/": PRIVATE_NAME,
    "https://1.0.0.127.in-addr.arpa/": PRIVATE_NAME,
    "https://intranet/": PRIVATE_NAME,
    "https://abc.onion/": PRIVATE_NAME,
    "https://%31%32%37.0.0.1/": NO_NAME,
    "https://127.0.0.1%00.example.com/": NO_NAME,
    "https://example%2ecom/": NO_NAME,
    "https://example.com%2f@127.0.0.1/": "it carries credentials",
    "https://user@example.com/": "it carries credentials",
    "https://user:word@example.com/": "it carries credentials",
    "https://@example.com/": "it carries credentials",
    "https://:@example.com/": "it carries credentials",
    "https://example.com@127.0.0.1/": "it carries credentials",
    "https://example.com\\@127.0.0.1/": NO_URL,
    "https:\\\\127.0.0.1/": NO_URL,
    "https://127.0.0.1\t/": NO_URL,
    "https://exa\nmple.com/": NO_URL,
    "https://example.com/\r\nHost: x": NO_URL,
    " https://example.com/": NO_URL,
    "https://example.com /": NO_URL,
    "https://exam ple.com/": NO_URL,
    "https://[::1/": NO_URL,
    "https://::1/": NO_URL,
    "https://example.com:port/": NO_URL,
    "https://example.com:-1/": "its port is reserved",
    "https://-example.com/": NO_NAME,
    "https://example..com/": NO_NAME,
    "https://.example.com/": NO_NAME,
    "https://example.com../": NO_NAME,
    "https://exa$mple.com/": NO_NAME,
    "https:///etc/passwd": NO_HOST,
    "https://": NO_HOST,
    "https:example.com": NO_HOST,
    "https://./": NO_HOST,
    "http://example.com/": "it is not https",
    "HTTP://example.com/": "it is not https",
    "ftp://example.com/": "it is not https",
    "file:///etc/passwd": "it is not https",
    "gopher://127.0.0.1:6379/_": "it is not https",
    "data:image/png;base64,AAAA": "it is not https",
    "javascript:alert(1)": "it is not https",
    "//example.com/": "it is not https",
    "example.com": "it is not https",
    "": "it is not https",
    "https://example.com:0/": "its port is reserved",
    "https://example.com:22/": "its port is reserved",
    "https://example.com:80/": "its port is reserved",
    "https://example.com:442/": "its port is reserved",
    "https://example.com:1023/": "its port is reserved",
    "https://example.com:65536/": "its port is reserved",
    "https://" + "a" * 70_000 + ".com/": NO_URL,
}


@pytest.mark.parametrize("url", REFUSED, ids=lambda url: ascii(url)[:60])
def test_spellings_of_addresses_that_are_not_called_are_refused_by_their_text(url: str) -> None:
    assert ssrf.check_url(url) == REFUSED[url]


@pytest.mark.parametrize(
    ("url", "has_some"),
    [
        *((url, True) for url, reason in REFUSED.items() if reason == ssrf.HAS_CREDENTIALS),
        ("http://user@127.0.0.1:8080/", True),
        ("https://example.com/@name", False),
        ("https://example.com?a@b", False),
        ("https://example.com#a@b", False),
    ],
)
def test_a_user_name_in_an_address_is_known_by_its_text(url: str, has_some: bool) -> None:
    assert ssrf.has_credentials(url) is has_some


def test_there_are_at_least_sixty_spellings() -> None:
    assert len(REFUSED) >= 60


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "HTTPS://EXAMPLE.COM/a?b=c#d",
        "https://example.com./a",
        "https://example.com:443/",
        "https://example.com:1024/",
        "https://example.com:65535/",
        "https://a_b.example.com/a%20b?x=https://127.0.0.1/",
        "https://example.com/@name",
        "https://example.com?a@b",
        "https://bücher.example/straße.jpg",
        "https://xn--bcher-kva.example/",
        "https://127.0.0.1.example.com/",
        "https://8.8.8.8/",
        "https://[2606:4700:4700::1111]:8443/",
        "https://1password.com/",
        "https://4chan.org/0x1",
    ],
)
def test_ordinary_https_urls_pass(url: str) -> None:
    assert ssrf.check_url(url) is None


@given(st.text(max_size=40))
def test_any_text_gets_an_answer(text: str) -> None:
    for url in (text, f"https://{text}", f"https://{text}/", f"https://example.com/{text}"):
        found = ssrf.check_url(url)
        assert found is None or found.startswith(("it ", "its "))


@pytest.mark.parametrize("spelling", ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "127.0.0.1"])
def test_what_the_system_resolves_to_loopback_is_refused_as_an_address_too(spelling: str) -> None:
    found = {str(entry[4][0]) for entry in socket.getaddrinfo(spelling, 443, type=socket.SOCK_STREAM)}
    assert found
    assert not any(ssrf.is_public_address(address) for address in found)


# --- This machine's own addresses -----------------------------------------------------------------------------------


def test_own_addresses_are_known_by_binding() -> None:
    assert ssrf.is_own_address("127.0.0.1")
    assert not ssrf.is_own_address("93.184.216.34")
    assert not ssrf.is_own_address("2606:4700::1111")


@pytest.mark.parametrize("port,may", [(443, True), (8080, False), (6379, False)])
def test_on_a_public_address_of_this_machine_only_https_is_called(
    monkeypatch: pytest.MonkeyPatch, port: int, may: bool
) -> None:
    monkeypatch.setattr(ssrf, "is_own_address", lambda address: address == "93.184.216.34")
    assert ssrf.may_connect("93.184.216.34", port) is may
    assert ssrf.may_connect("93.184.216.35", port)
