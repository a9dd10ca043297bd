"""`moneystate ingest`: takes records over HTTP and writes them to Kafka (docs/ingest.md)."""
