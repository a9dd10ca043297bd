"""The schemas of deliveries, as the router has released them."""

from __future__ import annotations

from typing import Final

from moneystate.deliver.records import DeliveryReader
from moneystate.schemas.services import released_tree

DELIVERY: Final = "events/Delivery"


def delivery_reader(router: str) -> DeliveryReader:
    """Reads deliveries of all versions of the service `router` that were released."""
    return DeliveryReader([version.source for version in released_tree(router).versions[DELIVERY].values()])
