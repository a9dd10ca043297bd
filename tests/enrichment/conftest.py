from __future__ import annotations

import pytest

from tests.enrichment.stories import Story


@pytest.fixture(params=[False, True], ids=["by hand", "plain"])
def story(request: pytest.FixtureRequest) -> Story:
    return Story(plain=request.param)


@pytest.fixture
def by_hand() -> Story:
    """For what only the state of the processor shows that is written by hand."""
    return Story()
