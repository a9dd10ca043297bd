"""All targets, in the order in which they run."""

from __future__ import annotations

from tests.fuzz import engine, files, formats, outside, programs, requests, tables
from tests.fuzz.target import TARGETS

__all__ = ["TARGETS", "engine", "files", "formats", "outside", "programs", "requests", "tables"]
