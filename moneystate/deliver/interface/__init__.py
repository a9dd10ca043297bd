"""The HTTP interface of event delivery: customers' endpoints, subscriptions and secrets, and what became of messages.

refusals, rights       why a request is refused, and what a token grants
documents              the rows that requests make
tables, owned          the tables `endpoints` and `subscriptions`, of which the interface is the one writer
keys                   secrets: given, made, rotated
pages, commands        the logs of messages, and what workers are asked to do
callers, audit         who sends a request, and what the audit log has of it
models, routing, app   the requests, in FastAPI
options, process       the server
"""
