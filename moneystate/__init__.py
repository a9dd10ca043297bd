"""The platform: stateful event processing whose output is a pure function of the logs."""
