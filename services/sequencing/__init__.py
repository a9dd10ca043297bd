"""Events that several producers write, put into sequence (docs/sequencing.md)."""
