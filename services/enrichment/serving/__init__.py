"""The enrichment's own face of the query server: `moneystate.query.v1`."""
