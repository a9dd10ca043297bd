"""The API that services are declared on (`import moneystate as ms`; docs/services.md).

A service is a value, `moneystate.api.service.Service`: its inputs, outputs, state, timers and the functions that run on
them. Everything else is derived from it: codecs from its records (`moneystate.records`), the processor that the engine
runs (`moneystate.runtime`). A service's author reads no other package. Standard library only.
"""
