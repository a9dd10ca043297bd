"""The worker of lookups: answers their requests from an HTTP service, exactly once (docs/lookups.md).

`worker` is the loop; `requests` reads the requests and writes the replies in Kafka transactions; `resolver` makes the
calls (retries, one call for a path), with `breaker` and `limiter` in front of `http_service`; `index` knows which
requests are answered; `wire` reads and writes the records that a service declares.
"""
