"""`moneystate run`: runs services as jobs, from Kafka to Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from moneystate import log
from moneystate.cli.option import PATH, Panel, flagged, option
from moneystate.cli.options import Json, Quiet
from moneystate.cli.service_jobs import Prepared, prepare
from moneystate.cli.watching import Watching
from moneystate.spark.jvm_start import begin_run


def run_services(
    prepared: list[Prepared],
    watching: Watching,
    approved: Annotated[
        Path | None,
        option(
            "approved",
            "File of `moneystate plan --save`: refuse to start if anything else would change.",
            Panel.run,
            PATH,
        ),
    ] = None,
    json_output: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run services from Kafka to Kafka, exactly once.

    Records are processed in event-time order. A rule of a service is a flag: wait_ms is --wait 30m. Several services
    run in one Spark application, with a folder of --checkpoint for each. With --local, they run in one process without
    Spark and give the same records. The command ends with code 0 after --until-caught-up or SIGTERM, once the current
    batch is finished.
    """
    log.add_fields(service=", ".join(one.spec.name for one in prepared))
    own = None if prepared[0].options.local else begin_run(prepared[0].spec, prepared[0].options)
    # here: its imports take as long as half of the JVM's start
    from moneystate.cli.running import run_prepared

    run_prepared(prepared, watching, own, approved, json_output, quiet)


run = flagged(run_services, "prepared", prepare)
