"""SSRF guard: refused and allowed IP addresses, and odd URL spellings."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from socialpub.base.http import ssrf
from tests.support.refused_addresses import PRIVATE4, PRIVATE6, REFUSED_SPELLINGS

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
def test_mapped_or_translated_address_is_checked_as_its_target(
    address: ipaddress.IPv4Address,
) -> None:
    assert not ssrf.is_public_address(f"::ffff:{address}")
    assert not ssrf.is_public_address(f"64:ff9b::{address}")


# --- URLs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", REFUSED_SPELLINGS, ids=lambda url: ascii(url)[:60])
def test_odd_spellings_of_addresses_are_refused_by_their_text(url: str) -> None:
    assert ssrf.check_url(url) == REFUSED_SPELLINGS[url]


@pytest.mark.parametrize(
    ("url", "has_some"),
    [
        *((url, True) for url, reason in REFUSED_SPELLINGS.items() if reason == ssrf.HAS_CREDENTIALS),
        ("http://user@127.0.0.1:8080/", True),
        ("https://example.com/@name", False),
        ("https://example.com?a@b", False),
        ("https://example.com#a@b", False),
    ],
)
def test_a_user_name_in_an_address_is_known_by_its_text(url: str, has_some: bool) -> None:
    assert ssrf.has_credentials(url) is has_some


def test_there_are_at_least_sixty_spellings() -> None:
    assert len(REFUSED_SPELLINGS) >= 60


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


@pytest.mark.parametrize(
    "url",
    ["http://example.com:65536/", "https://example.com:99999/", "https://example.com:-1/", "https://＠@example.com/"],
)
def test_no_setting_accepts_a_url_that_another_parser_refuses(url: str) -> None:
    named = ssrf.parse_allowed_hosts(["example.com"])
    assert [ssrf.check_url(url, allow_private=True), ssrf.check_url(url, named=named)].count(None) == 0


@pytest.mark.parametrize("spelling", ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "127.0.0.1"])
def test_name_that_resolves_to_loopback_is_refused(spelling: str) -> None:
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
