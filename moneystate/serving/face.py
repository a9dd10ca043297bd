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
    """The handlers of a face, in one worker process."""

    @property
    def reads(self) -> Reads: ...

    def endpoints(self, tokens: PageTokens, feed: Feed) -> dict[str, Endpoint]:
        """The endpoint of every method, by SERVICE.METHOD. A missing one fails the start."""
        ...

    def close(self) -> None:
        """Releases resources. It may take a while."""
        ...


class Face(Protocol):
    """A service's part of the query server. It is pickled into the server's processes."""

    @property
    def name(self) -> str:
        """The service's name, as its jobs have it."""
        ...

    @property
    def services(self) -> Sequence[Any]:
        """The descriptors of the gRPC services."""
        ...

    @property
    def replica(self) -> ReplicaModel[Any]: ...

    def open(self, options: ServeOptions) -> Answers: ...
