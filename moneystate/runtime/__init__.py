"""Runs declared services: checks and compiles a service (`plan`), and implements the ports for it (`processor`,
`state_model`, `replica_model`). It reads the declarations of `moneystate.api`, which does not know it. Standard library
only.
"""
