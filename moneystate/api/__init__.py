"""The API that services are declared on (`import moneystate as ms`; docs/services.md).

A service is a value, `moneystate.api.service.Service`: its inputs, outputs, state, timers and the functions that run on
them. Everything else is derived from it: codecs from its records (`codec`), the processor that the engine runs
(`runtime`), entry keys (`layout`). Standard library only.
"""
