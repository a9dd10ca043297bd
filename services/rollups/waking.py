"""The steps that change a device's blocks and buckets: its timer, and the commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import moneystate as ms
from services.rollups.catalog import Catalog
from services.rollups.closing import Wake
from services.rollups.config import Config
from services.rollups.records import Book, Device, Forget, Pulse, Remove
from services.rollups.removing import forget, remove
from services.rollups.stepping import Outputs, StepMaps


@dataclass(frozen=True)
class Waking:
    """`states`: those of a device, as `points.States` has them."""

    catalog: Catalog
    outputs: Outputs
    timer: ms.Timer

    def wakes(self, ctx: ms.Context[Config], *states: Any) -> None:
        self._wake(ctx, *states).run(self.timer)

    def removes(self, ctx: ms.Context[Config], e: Remove, *states: Any) -> None:
        remove(self._wake(ctx, *states), e, self.timer)

    def forgets_all(self, ctx: ms.Context[Config], e: Forget, *states: Any) -> None:
        forget(self._wake(ctx, *states), self.timer)

    def _wake(self, ctx: ms.Context[Config], device: Device, pulse: Pulse, book: Book, *maps: Any) -> Wake:
        return Wake(ctx, self.catalog, self.outputs, device, pulse, book, StepMaps(*maps))
