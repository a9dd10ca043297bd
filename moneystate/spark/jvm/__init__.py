"""Java code that runs in Spark's JVM, and how it is built."""
