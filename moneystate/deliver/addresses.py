"""Which addresses a request may go to: those of public hosts, and not those of this network.

The address is checked when a connection is opened to it, not when a name is resolved before: a name may have another
address a moment later.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Networks that `is_global` of some Python version lets pass.
_REFUSED: Final = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",  # this host
        "100.64.0.0/10",  # of providers
        "168.63.129.16/32",  # Azure's platform, for each of its machines
        "192.0.0.0/24",  # of protocols
        "192.88.99.0/24",  # 6to4 relays
        "198.18.0.0/15",  # for measurements
        "240.0.0.0/4",
        "100::/64",  # discarded
        "2001::/23",  # of protocols, Teredo among them
        "2001:db8::/32",  # for examples
        "3fff::/20",  # for examples
        "5f00::/16",  # segment routing
        "fec0::/10",  # site-local
    )
)
# IPv6 networks with an IPv4 address in them, and the number of bits after it.
_WRAPPING: Final = (
    (ipaddress.IPv6Network("::/96"), 0),
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),  # IPv4-mapped
    (ipaddress.IPv6Network("::ffff:0:0:0/96"), 0),  # IPv4-translated
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (ipaddress.IPv6Network("2002::/16"), 80),  # 6to4
)
_LOCAL_NAT64: Final = ipaddress.IPv6Network("64:ff9b:1::/48")  # where the IPv4 address stands in it is not known


class Addresses:
    """The addresses that may be connected to."""

    def __init__(self, own: Iterable[str] = (), allowed: Iterable[str] = ()) -> None:
        """`own`: addresses of this machine. `allowed`: networks that are allowed all the same. Raises ValueError."""
        self._own = frozenset(unwrapped(ipaddress.ip_address(text.partition("%")[0])) for text in own)
        self._allowed: tuple[Network, ...] = tuple(ipaddress.ip_network(text) for text in allowed)

    def refusal(self, host: str) -> str:
        """Returns why the numeric address may not be connected to. Empty: it may."""
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return "not an address"
        if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
            return "an address with a scope"
        real = unwrapped(address)
        if any(candidate in network for network in self._allowed for candidate in (address, real)):
            return ""
        if real in self._own:
            return "an address of this machine"
        return "" if is_public(address) else "not a public address"


def is_public(address: Address) -> bool:
    """Whether it is a global unicast address, also after an IPv4 address within it was unwrapped."""
    real = unwrapped(address)
    if real.is_multicast or not real.is_global:
        return False
    if isinstance(real, ipaddress.IPv6Address) and (real in _LOCAL_NAT64 or real not in _GLOBAL_UNICAST):
        return False
    return not any(real in network for network in _REFUSED if network.version == real.version)


_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")


def unwrapped(address: Address) -> Address:
    """The IPv4 address within an IPv6 address, or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    for network, bits in _WRAPPING:
        if address in network:
            return ipaddress.IPv4Address(int(address) >> bits & 0xFFFFFFFF)
    return address
