"""Single-object headers of the enrichment's schemas.

`C3 01` and the little-endian CRC-64-AVRO fingerprint of the schema. They are constants, so that the core needs no Avro
library. `tests/test_schemas.py` compares them with the files under `avro/`.
"""

from __future__ import annotations

from typing import Final

USER_PAGE: Final = bytes.fromhex("c30159dfcc365c33f150")
USER_PAGE_V1: Final = bytes.fromhex("c301ec1beb7d80d80859")
USER_STATE: Final = bytes.fromhex("c301eaecf25517fb7e0d")
USER_STATE_V1: Final = bytes.fromhex("c301524e57f38ee4df5c")
WAITING_MONEY: Final = bytes.fromhex("c301ab3e2da2434e7e2f")
WAITING_MONEY_V1: Final = bytes.fromhex("c301f10f5dac6fa4fd09")
FORGOTTEN_USER: Final = bytes.fromhex("c3011514a0a81e738b3f")
CHANGE_ADDRESS_EVENT: Final = bytes.fromhex("c3016456b3f9b1ee6789")
CHANGE_BIRTH_DATE_EVENT: Final = bytes.fromhex("c301ff20a2be3dcc2015")
FORGET_USER_REQUESTED: Final = bytes.fromhex("c3017416f02f2437fad7")
HEARTBEAT: Final = bytes.fromhex("c30100bc02ce2f7a6d09")
KIND_OF_WALLET_EVENT: Final = bytes.fromhex("c301ae1d7b19f12aa68e")
OTHER_USER_EVENT: Final = bytes.fromhex("c301171bc2edfbd4bf3f")
PAYMENT_EVENT: Final = bytes.fromhex("c30193d6c749bb3a4257")
TRANSACTION_EVENT: Final = bytes.fromhex("c3014a15f36220fbb898")
USER_SESSION_CLOSED_EVENT: Final = bytes.fromhex("c3019c6e409a36132e14")
USER_SESSION_CREATED_EVENT: Final = bytes.fromhex("c3016c0a9dc6cc5d7c71")
SESSION_LOOKUP_COMPLETED: Final = bytes.fromhex("c30134aac530eb9c3a2d")
SESSION_LOOKUP_REQUESTED: Final = bytes.fromhex("c301dd85951c302cbfea")
LINEAGE: Final = bytes.fromhex("c30124cf23ad77dc7212")
MONEY_ENRICHED: Final = bytes.fromhex("c301d8ecbab305ab78d2")
