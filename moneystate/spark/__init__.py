"""The job on Spark: session, data source, stateful operator, sink action. `moneystate.job` has the rest."""
