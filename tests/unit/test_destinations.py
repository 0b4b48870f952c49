"""Where a callback may go: by URL, and by address, in every disguise that an address has."""

from __future__ import annotations

import pytest

from shardwheel.destinations import CallbackRules, Destination, destination_of, is_public
from shardwheel.errors import UsageError

LAX = CallbackRules(("https", "http"), ("hooks.intra", "10.0.0.7", "LOCALHOST", "::1"))


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "1.1.1.1",
        "193.0.6.139",
        "2a00:1450:4001:81b::200e",
        "2606:4700::1111",
        "2001:4860:4860::8888",
    ],
)
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.0.0.1",
        "100.64.0.1",  # carrier-grade NAT
        "127.0.0.1",
        "169.254.169.254",  # the clouds' metadata
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.0.9",
        "192.0.2.1",
        "192.88.99.1",  # 6to4's relays
        "192.168.1.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",  # IPv4-compatible
        "::8.8.8.8",
        "::ffff:127.0.0.1",  # mapped
        "::ffff:8.8.8.8",
        "::ffff:0:127.0.0.1",  # translated
        "64:ff9b::a00:1",  # NAT64
        "64:ff9b::8.8.8.8",
        "64:ff9b:1::a00:1",  # local NAT64
        "100::1",
        "2001::1",  # Teredo
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:10::1",
        "2001:20::1",
        "2001:db8::1",
        "2002:7f00:1::",  # 6to4 of 127.0.0.1
        "2002:808:808::1",
        "3fff::1",
        "2a00:1450:4001:81b:0:5efe:10.0.0.1",  # ISATAP
        "2a00:1450:4001:81b:200:5efe:10.0.0.1",
        "5f00::1",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
        "4000::1",
    ],
)
def test_no_other_address_is(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    ("url", "expected", "authority"),
    [
        ("https://example.com", Destination("https", "example.com", 443, "/"), "example.com"),
        (
            "https://EXAMPLE.com.:8443/a/b?c=d",
            Destination("https", "example.com", 8443, "/a/b?c=d"),
            "example.com:8443",
        ),
        ("https://8.8.8.8/x", Destination("https", "8.8.8.8", 443, "/x"), "8.8.8.8"),
        (
            "https://[2606:4700::1111]:444/x",
            Destination("https", "2606:4700::1111", 444, "/x"),
            "[2606:4700::1111]:444",
        ),
        (
            "https://xn--bcher-kva.example/",
            Destination("https", "xn--bcher-kva.example", 443, "/"),
            "xn--bcher-kva.example",
        ),
    ],
)
def test_a_url_is_read_in_one_way(url: str, expected: Destination, authority: str) -> None:
    assert destination_of(url) == expected
    assert expected.authority == authority


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "not allowed"),
        ("example.com/x", "no scheme"),
        ("http://example.com/", "use https"),
        ("ftp://example.com/", "use https"),
        ("file:///etc/passwd", "use https"),
        ("https:///x", "names no host"),
        ("https://user@example.com/", "password"),
        ("https://user:pass@example.com/", "password"),
        ("https://example.com@10.0.0.1/", "password"),
        ("https://example.com/#part", "fragment"),
        ("https://example.com:0/", "port"),
        ("https://example.com:65536/", "port"),
        ("https://example.com:x/", "port"),
        ("https://example.com/a b", "not allowed"),
        ("https://example.com\\@10.0.0.1/", "not allowed"),
        ("https://example.com/\n", "not allowed"),
        ("https://bücher.example/", "not allowed"),
        ("https://example.com/" + "x" * 2_000, "characters"),
        ("https://10.0.0.7/", "not public"),
        ("https://[::1]/", "not public"),
        ("https://[::ffff:10.0.0.1]/", "not public"),
        ("https://[64:ff9b::a00:1]/", "not public"),
        ("https://[::1/", "can't be read"),
        ("https://localhost/", "not public"),
        ("https://localhost./", "not public"),
        ("https://a.localhost/", "not public"),
        ("https://2130706433/", "no host"),
        ("https://0x7f000001/", "no host"),
        ("https://0x7f.1/", "no host"),
        ("https://127.1/", "no host"),
        ("https://0177.0.0.1/", "no host"),
        ("https://10.0.0.1.:80/", "not public"),
        ("https://exa_mple..com/", "no host"),
        ("https://-a.example/", "no host"),
    ],
)
def test_refusals_name_the_field_and_the_problem(url: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        destination_of(url)
    assert caught.value.field == "callback_url"


def test_a_site_may_list_private_hosts_and_allow_http() -> None:
    for url in (
        "http://example.com/",
        "http://hooks.intra:8080/x",
        "https://10.0.0.7/",
        "http://localhost:1/",
        "http://[::1]/",
    ):
        destination_of(url, LAX)
    with pytest.raises(UsageError, match="not public"):
        destination_of("http://10.0.0.8/", LAX)
