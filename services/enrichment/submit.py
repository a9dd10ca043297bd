"""The entry for spark-submit: `spark-submit services/enrichment/submit.py FLAGS` is `moneystate enrich FLAGS`.

The `services` package has to be importable by driver and executors (installed, or by PYTHONPATH).
"""

from __future__ import annotations

import sys

from moneystate.cli.main import main

if __name__ == "__main__":
    sys.argv.insert(1, "enrich")
    main()
