"""The enrichment's calls of the query server: `moneystate.query.v1`."""
