"""The entry point for spark-submit: `spark-submit services/enrichment/submit.py FLAGS` runs `moneystate enrich FLAGS`.

Driver and executors must be able to import the `services` package (installed, or on PYTHONPATH).
"""

from __future__ import annotations

import sys

from moneystate.cli.main import main

if __name__ == "__main__":
    sys.argv.insert(1, "enrich")
    main()
