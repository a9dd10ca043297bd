"""The ports between the platform and its services: what a service provides so that the platform can run it, read its
state and move it.

The platform knows services by these ports alone. `moneystate/runtime` fills them for what a service declares.
"""
