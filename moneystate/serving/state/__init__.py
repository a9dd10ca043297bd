"""`moneystate.state.v1`: the face of plain services at the query server."""
