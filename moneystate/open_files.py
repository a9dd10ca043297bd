"""The limit of open files of this process."""

from __future__ import annotations

import resource
import sys


def raise_limit() -> int:
    """Raises it as far as the system allows. Returns what it is then."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return sys.maxsize if most == resource.RLIM_INFINITY else most
