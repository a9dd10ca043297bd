"""Commands of the delivery."""
