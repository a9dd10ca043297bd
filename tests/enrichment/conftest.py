from __future__ import annotations

import pytest

from tests.enrichment.by_hand import BY_HAND
from tests.enrichment.harness import DECLARED
from tests.enrichment.stories import Story


@pytest.fixture(params=[BY_HAND, DECLARED], ids=["by hand", "declared"])
def story(request: pytest.FixtureRequest) -> Story:
    return Story(core=request.param)


@pytest.fixture
def by_hand() -> Story:
    """For what only the state of the processor shows that is written by hand."""
    return Story(core=BY_HAND)


@pytest.fixture
def declared() -> Story:
    """For what only the state of the declared service shows."""
    return Story()
