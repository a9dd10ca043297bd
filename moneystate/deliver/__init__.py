"""The workers of event delivery: they send what stands in `deliveries` to the endpoints of customers, over HTTP.

Decisions about a delivery need neither Kafka nor a connection. `dispatcher` puts them together: what the worker of a
partition sends when, and what it writes. `sending` sends.
"""
