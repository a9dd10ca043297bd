"""The query server: answers questions about the state over gRPC (proto/moneystate/state/v1)."""
