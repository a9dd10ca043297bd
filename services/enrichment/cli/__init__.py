"""The enrichment's own commands (`moneystate.cli.registry`)."""
