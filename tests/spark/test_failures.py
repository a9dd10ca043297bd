"""What a user reads of Spark's exceptions."""

from __future__ import annotations

from py4j.protocol import Py4JNetworkError

from moneystate.job.failures import as_one_line


def test_a_lost_connection_to_the_jvm_is_told_as_its_death() -> None:
    for lost in (Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError()):
        assert as_one_line(lost).message == "the Spark job failed: its JVM has died."
