"""Kafka: clients, topics, record ranges, the planner, the transactional sink and its markers."""
