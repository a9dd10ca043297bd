"""What the replica makes of the enrichment's entries (`moneystate.ports.replica`)."""
