"""Session lookups: a worker that answers `SessionLookupRequested` from an external HTTP service, exactly once.

`worker` is the loop; `requests` reads the requests and writes the replies in Kafka transactions; `resolver` turns a
session id into an answer (retries, one call for a session), with `breaker` and `limiter` in front of `http`; `index`
knows which requests are answered. `docs/lookups.md` has the protocol. `fake_service` stands in
for the external service.
"""
