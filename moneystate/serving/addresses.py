"""Parses HOST:PORT and recognizes loopback addresses."""

from __future__ import annotations

import ipaddress
import re

from moneystate.errors import ConfigError

EVERY = ("0.0.0.0", "::")  # listens on all addresses of a machine
_FORM = re.compile(r"(?P<host>[^:/\[\]\s]+|\[[0-9a-fA-F:.]+\]):(?P<port>[0-9]{1,5})")


def split(address: str, flag: str) -> tuple[str, int]:
    """Host and port; an IPv6 host is in brackets. Raises ConfigError that names `flag`."""
    match = _FORM.fullmatch(address)
    if match is None or int(match["port"]) > 65_535:
        raise ConfigError(f"{flag} {address}: expected HOST:PORT.", "for example 127.0.0.1:8484 or [::1]:8484.")
    return match["host"].strip("[]"), int(match["port"])


def is_address(text: str) -> bool:
    """Whether it has the form HOST:PORT."""
    return _FORM.fullmatch(text) is not None


def announced(text: str, port: int, flag: str) -> str:
    """HOST:PORT of HOST or HOST:PORT; without a port, with `port`. Raises ConfigError that names `flag`."""
    address = text if is_address(text) else f"{text}:{port}"
    if not is_address(address) or split(address, flag)[0] in EVERY:
        raise ConfigError(
            f"{flag} {text}: expected HOST or HOST:PORT under which others reach the server.",
            "for example 10.0.0.7 or query.example.org:8484.",
        )
    return address


def of_metrics(text: str, host: str, port: int, flag: str) -> str:
    """Returns where others find the metrics of a command that announces itself as `text`, and that listens for them on
    `host` and `port`: there, or on this machine alone. Raises ConfigError that names `flag`."""
    own = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if is_loopback(own):
        return own
    announced_host, _ = announced(text, port, flag).rsplit(":", 1)
    return f"{announced_host}:{port}"


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach the address."""
    host, _ = split(address, "address")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name, which may resolve to any address
