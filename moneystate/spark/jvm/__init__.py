"""Parts that run in Spark's JVM."""
