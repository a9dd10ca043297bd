"""Single-object headers of the engine's own state schemas.

`C3 01` and the little-endian CRC-64-AVRO fingerprint of the schema. They are constants, so that the core needs no Avro
library. `tests/test_schemas.py` compares them with the files under `avro/`.
"""

from __future__ import annotations

from typing import Final

BUFFER_CHUNK: Final = bytes.fromhex("c301d3ee91e868c659d4")
KEY_GROUP_CLOCK: Final = bytes.fromhex("c30176c27e2ab729b596")
KEY_GROUP_CLOCK_V1: Final = bytes.fromhex("c3012d5cd377018963f0")
STATE_MANIFEST: Final = bytes.fromhex("c3014dae416be83ce8c9")
STATE_RUN: Final = bytes.fromhex("c301999008056ee98920")
