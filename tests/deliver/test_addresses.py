"""Which addresses a request may go to."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moneystate.deliver.addresses import Addresses, is_public

PUBLIC = ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e"]
REFUSED = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254", "168.63.129.16",
    "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.1.1",
    "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "::1", "100::1", "2001::1", "2001:db8::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0",
    "fec0::1", "ff02::1", "ff0e::1", "3fff::1", "5f00::1", "4000::1",
]  # fmt: skip
WRAPPERS = ["::{}", "::ffff:{}", "::ffff:0:{}", "64:ff9b::{}"]


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_may_be_connected_to(address: str) -> None:
    assert Addresses().refusal(address) == ""


@pytest.mark.parametrize("address", [*REFUSED, "", "localhost", "1.1.1", "0x7f.1", "2130706433"])
def test_any_other_address_is_refused(address: str) -> None:
    assert Addresses().refusal(address)


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_an_ipv4_address_within_an_ipv6_address_is_judged_itself(wrapper: str) -> None:
    for inner in REFUSED:
        if ":" not in inner:
            assert Addresses().refusal(wrapper.format(inner)), inner
    assert Addresses().refusal(wrapper.format("1.1.1.1")) == ""


def test_an_address_of_6to4_is_judged_by_the_ipv4_address_in_it() -> None:
    assert Addresses().refusal("2002:7f00:1::1")  # 127.0.0.1
    assert Addresses().refusal("2002:a9fe:a9fe::1")  # 169.254.169.254
    assert Addresses().refusal("64:ff9b:1::7f00:1")


@given(st.ip_addresses(v=4))
def test_no_wrapping_makes_an_address_public(address: ipaddress.IPv4Address) -> None:
    for wrapper in WRAPPERS:
        assert is_public(ipaddress.ip_address(wrapper.format(address))) == is_public(address)


def test_an_own_address_is_refused_also_if_it_is_public() -> None:
    addresses = Addresses(own=["1.1.1.1"])
    assert addresses.refusal("1.1.1.1")
    assert addresses.refusal("::ffff:1.1.1.1")
    assert addresses.refusal("1.1.1.2") == ""


def test_an_allowed_network_may_be_connected_to() -> None:
    addresses = Addresses(own=["127.0.0.1"], allowed=["127.0.0.0/8"])
    assert addresses.refusal("127.0.0.1") == ""
    assert addresses.refusal("10.0.0.1")
