"""The job on Spark: data source, stateful operator, sink action, and the loop that ties them together."""
