from __future__ import annotations

import pytest

from tests.enrichment.stories import Story


@pytest.fixture
def story() -> Story:
    return Story()
