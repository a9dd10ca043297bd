"""moneystate: stateful event processing on Spark and Kafka whose output is a pure function of the logs."""
