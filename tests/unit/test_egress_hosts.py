"""Hosts and addresses of the way out of a sandbox: no notation leads past a rule."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.workspaces.egress.hosts import address_of, canonical, fits, land_of, split_authority, written

LABELS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join).filter(lambda name: not name[-1].isdigit())


@given(NAMES)
def test_however_a_name_is_written_it_is_one_host(name: str) -> None:
    assert canonical(name.upper() + ".") == canonical(canonical(name)) == name


@given(NAMES, NAMES)
def test_a_suffix_means_the_names_below_it_and_no_other(suffix: str, name: str) -> None:
    assert fits(f"*.{suffix}", f"{name}.{suffix}")
    assert not fits(f"*.{suffix}", suffix)
    assert not fits(f"*.{suffix}", f"{name}{suffix}") or name.endswith(".")
    assert fits(f"*.{suffix}", name) == name.endswith("." + suffix)


@given(NAMES, NAMES)
def test_a_name_means_itself_alone(one: str, other: str) -> None:
    assert fits(one, other) == (one == other)


@given(st.ip_addresses())
def test_an_address_is_meant_by_no_pattern(address: IPv4Address | IPv6Address) -> None:
    host = str(address)
    assert address_of(host) == address
    assert not fits("*", host)
    assert not fits(f"*.{host[1:]}", host)
    assert fits(host, host)


@given(st.ip_addresses(v=4))
def test_an_address_of_ipv4_is_itself_in_the_clothes_of_ipv6(address: IPv4Address) -> None:
    mapped = IPv6Address((0xFFFF << 32) | int(address))
    assert canonical(f"[{mapped}]") == canonical(f"[::ffff:{address}]") == str(address)
    assert land_of(mapped) == land_of(address)


@given(st.ip_addresses(v=4))
def test_no_gateway_between_the_two_kinds_of_addresses_leads_to_a_nearer_place(address: IPv4Address) -> None:
    order = ["public", "private", "loopback", "link", "none"]
    translated = IPv6Address(int(IPv6Address("64:ff9b::")) | int(address))
    tunnelled = IPv6Address((0x2002 << 112) | (int(address) << 80))
    for other in (translated, tunnelled):
        assert order.index(land_of(other)) >= order.index(land_of(address))


@given(st.ip_addresses(), st.integers(1, 65535))
def test_what_is_written_is_read_again(address: IPv4Address | IPv6Address, port: int) -> None:
    host = canonical(f"[{address}]" if address.version == 6 else str(address))
    assert split_authority(written(host, port)) == (host, port)


@pytest.mark.parametrize(
    "text",
    [
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "127.1",
        "0177.0.0.1",
        "127.0.0.01",
        "127.0.0.256",
        "017700000001",
        "1.2.3.4.5",
        "a.0x7f",
        "[127.0.0.1]",
        "[fe80::1%eth0]",
        "[::1",
        "::1",
        "",
        ".",
        "a..b",
        "-a.example",
        "exa mple",
        "example.com/",
        "user@example.com",
        "ex\tample",
        "bücher.example",
        "１２７.0.0.1",
        "a" * 64 + ".example",
        ".".join(["a" * 60] * 5),
    ],
)
def test_what_is_no_host_or_an_address_in_disguise_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        canonical(text)


@pytest.mark.parametrize(
    "text",
    [
        "host",
        "host:",
        "host:0",
        "host:65536",
        "host:443x",
        ":443",
        "a:b:1",
        "host:-1",
        "a@b:1",
        "[::1]",
        "h:٣",
    ],
)
def test_where_a_connection_is_to_lead_is_a_host_and_a_port(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        split_authority(text)


@pytest.mark.parametrize(
    ("address", "land"),
    [
        ("93.184.216.34", "public"),
        ("2606:4700::1111", "public"),
        ("10.1.2.3", "private"),
        ("172.16.0.1", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "private"),
        ("198.18.0.1", "private"),
        ("fd12::1", "private"),
        ("127.0.0.1", "loopback"),
        ("127.255.0.1", "loopback"),
        ("::1", "loopback"),
        ("169.254.169.254", "link"),
        ("168.63.129.16", "link"),
        ("100.100.100.200", "link"),
        ("fd00:ec2::254", "link"),
        ("fe80::1", "link"),
        ("64:ff9b::a9fe:a9fe", "link"),
        ("2002:a9fe:a9fe::1", "link"),
        ("64:ff9b::7f00:1", "loopback"),
        ("::127.0.0.1", "loopback"),
        ("0.0.0.0", "none"),
        ("0.1.2.3", "none"),
        ("::", "none"),
        ("224.0.0.1", "none"),
        ("ff02::1", "none"),
        ("255.255.255.255", "none"),
        ("240.0.0.1", "none"),
    ],
)
def test_where_an_address_leads_is_known(address: str, land: str) -> None:
    assert land_of(ip_address(address)) == land
