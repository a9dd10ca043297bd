"""The demo: a scenario through a real broker and the real job, each step held against what was promised for it.

`scenario` and `promises` are pure; `exchange` talks to Kafka, `job` runs the job, `runner` puts them together, and
`view` shows it.
"""
