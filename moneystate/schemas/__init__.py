"""Schema evolution: what a change of an Avro schema means, and whether a release may have it."""
