"""The enrichment's part of the replica (`moneystate.ports.replica`)."""
