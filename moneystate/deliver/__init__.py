"""The workers of event delivery: they send what stands in `deliveries` to the endpoints of customers, over HTTP.

Decisions about a delivery need neither Kafka nor a connection: `outcomes`, `retry_after`, `breaker`, `signing`,
`headers`, `envelopes`, `batches`, `addresses`, `rows`, `records`, `requests`, `answers`. `sending` sends.
"""
