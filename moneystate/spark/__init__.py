"""Spark: the source, the stateful operator, the sink's action and the job that ties them together."""
