"""`moneystate.state.v1`: the query calls of services."""
