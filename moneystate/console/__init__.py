"""`moneystate console`: one site in the browser that shows what services do, from their topics and query servers.

It keeps no files of its own. `site` puts the pages together, `process` serves them. Pages of a service itself come from
the module `console` in its folder (`faces`).
"""
