"""Loads the rows of tables into their topics (docs/table-load.md).

`loading.py` numbers the steps of a load. The modules that decide import no client of a server: rows and their records
(`rows.py`, `records.py`), names and cells of columns (`columns.py`, `cells.py`), values of Python (`documents.py`),
deletions that look like a mistake (`guard.py`).
"""
