"""The interface through which a service adds its calls to the query server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from moneystate.ports.replica import ReplicaModel
from moneystate.serving.calls import Endpoint
from moneystate.serving.feed import Feed
from moneystate.serving.options import ServeOptions
from moneystate.serving.page_tokens import PageTokens
from moneystate.serving.reads import Reads


class Answers(Protocol):
    """In one worker process."""

    @property
    def reads(self) -> Reads: ...

    def endpoints(self, tokens: PageTokens, feed: Feed) -> dict[str, Endpoint]:
        """Of every method, by SERVICE.METHOD: a missing one fails at the start."""
        ...

    def close(self) -> None:
        """May take a while."""
        ...


class Face(Protocol):
    """Pickled into the server's processes."""

    @property
    def services(self) -> Sequence[Any]:
        """Their descriptors."""
        ...

    @property
    def replica(self) -> ReplicaModel[Any]: ...

    def open(self, options: ServeOptions) -> Answers: ...
