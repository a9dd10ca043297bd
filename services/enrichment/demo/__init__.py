"""The demo: plays a scenario through a real broker and the real job, and checks each step against its promise.

`scenario` and `promises` are pure. `exchange` talks to Kafka, `job` runs the job, `runner` combines them, and `view`
shows the run.
"""
