"""Kafka: topics, ranges of records, the transactional sink and its markers."""
