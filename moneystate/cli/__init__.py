"""The command line: `moneystate`."""
