"""A URL from the settings."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Self
from urllib.parse import unquote

from yarl import URL


@dataclass(frozen=True)
class ServiceUrl:
    """An http or https URL as `HttpCall` takes it, and the header that stands for its user and password."""

    url: str
    headers: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError, whose text does not repeat the URL."""
        try:
            parsed = URL(text)
        except ValueError:
            parsed = URL()
        if parsed.scheme not in ("http", "https") or not parsed.raw_host:
            raise ValueError("no http or https URL")
        if parsed.raw_user is None and parsed.raw_password is None:
            return cls(str(parsed), {})
        secret = f"{unquote(parsed.raw_user or '')}:{unquote(parsed.raw_password or '')}"
        basic = base64.b64encode(secret.encode()).decode()
        return cls(str(parsed.with_user(None)), {"Authorization": f"Basic {basic}"})
