"""Any input gives a value or the documented exception. `make fuzz` tries more inputs."""

from __future__ import annotations

import pytest

from tests.fuzz.all_targets import TARGETS

EXAMPLES = 40


@pytest.mark.parametrize("name", TARGETS)
def test_any_input_gives_a_value_or_the_documented_error(name: str) -> None:
    TARGETS[name].run(EXAMPLES)
