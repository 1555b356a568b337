"""Hosts, as requests and rules write them, and what lies at the addresses that their names stand for.

One host has one text here (`canonical`), so that what a rule says cannot be written past: names are lower case, without
a dot at the end; addresses are in their one usual notation. The others that a resolver would take (`0x7f.1`,
`2130706433`, `0177.0.0.1`) are no hosts at all.
"""

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, Literal, TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Land: TypeAlias = Literal["public", "private", "loopback", "link", "none"]
"""Where an address leads: the internet; a network of the owner's; this machine; only what is on the same wire, where
clouds keep the credentials of their machines; to nobody in particular."""

_NAME: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.(?!-)[a-z0-9_-]{1,63})*")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_QUAD: Final = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@/?#\\\s]+):([0-9]{1,5})")
_LEAST_FIRST: Final[tuple[Land, ...]] = ("none", "link", "loopback", "private", "public")
_LINK: Final = (
    IPv4Network("169.254.0.0/16"),
    IPv4Network("168.63.129.16/32"),  # Azure's, in the middle of the public ones
    IPv4Network("100.100.100.200/32"),  # Alibaba's
    IPv4Network("192.0.0.192/32"),  # Oracle's
    IPv6Network("fe80::/10"),
    IPv6Network("fd00:ec2::/32"),  # Amazon's
    IPv6Network("fd20:ce::254/128"),  # Google's
)
_TRANSLATED: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"), IPv6Network("::/96"))
"""Networks whose addresses have one of IPv4 in their last 32 bits."""


def canonical(text: str) -> str:
    """The one text of a host; of an address of IPv6 without brackets.

    Raises:
        ValueError: it is no host; the text says what it is instead.
    """
    if text.startswith("["):
        return _plain(IPv6Address(text[1:-1]) if text.endswith("]") and "%" not in text else _odd(text))
    name = text.lower().removesuffix(".")
    if _QUAD.fullmatch(name):
        return str(IPv4Address(name))
    if len(name) > 253 or not _NAME.fullmatch(name):
        raise ValueError(f"{text[:80]!r} is no name of a host")
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        _odd(text)
    return name


def split_authority(text: str) -> tuple[str, int]:
    """Host and port of `host:port`, the host canonical.

    Raises:
        ValueError
    """
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:80]!r} is not of the form host:port")
    port = int(found[2])
    if not 0 < port < 65536:
        raise ValueError(f"{port} is no port")
    return canonical(found[1]), port


def address_of(host: str) -> Address | None:
    """The address that a canonical host is; None: it is a name."""
    if ":" not in host and not _QUAD.fullmatch(host):
        return None
    return ip_address(host)


def written(host: str, port: int, usual: int = 0) -> str:
    """`host:port` as in a URL; without the port where it is the usual one."""
    name = f"[{host}]" if ":" in host else host
    return name if port == usual else f"{name}:{port}"


def fits(pattern: str, host: str) -> bool:
    """Whether a canonical host is meant by `host`, `*.suffix` or `*`.

    `*.suffix` are the names below it, not itself; an address is meant only by itself.
    """
    if pattern == host:
        return True
    if not pattern.startswith("*") or address_of(host) is not None:
        return False
    return host.endswith(pattern[1:])


def land_of(address: Address) -> Land:
    """Where an address leads: the least public of all that it can be taken for."""
    lands = {_land(each) for each in _meanings(address)}
    return next(land for land in _LEAST_FIRST if land in lands)


def _land(address: Address) -> Land:
    if any(address in network for network in _LINK if network.version == address.version):
        return "link"
    if address.is_loopback:
        return "loopback"
    if address.is_unspecified or address.is_multicast or _is_nobodys(address):
        return "none"
    return "public" if address.is_global else "private"


def _is_nobodys(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return address in IPv4Network("0.0.0.0/8") or address in IPv4Network("240.0.0.0/4")
    return False


def _meanings(address: Address) -> list[Address]:
    """An address, and those of IPv4 that gateways and stacks take it for."""
    if isinstance(address, IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    meanings: list[Address] = [address]
    if address.sixtofour is not None:
        meanings.append(address.sixtofour)
    if address.teredo is not None:
        meanings += address.teredo
    if any(address in network for network in _TRANSLATED) and not address.is_loopback:
        meanings.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return meanings


def _plain(address: IPv6Address) -> str:
    return str(address.ipv4_mapped or address)


def _odd(text: str) -> IPv6Address:
    raise ValueError(
        f"{text[:80]!r} is an address in a notation that is not taken; write it as 192.0.2.1 or [2001:db8::1]"
    )
