"""The state, answered over gRPC (proto/moneystate/query/v1)."""
