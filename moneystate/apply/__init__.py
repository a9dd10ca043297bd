"""Effects outside Kafka, exactly once: records become rows of PostgreSQL, and notifications follow (docs/apply.md).

The position in Kafka is committed in the transaction that has the rows. Notifications are rows of that transaction
first, and a relay publishes them afterwards. The modules that decide are pure; `database`, `consuming` and `relay` talk
to the servers.
"""
