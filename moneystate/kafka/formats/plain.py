"""The schemas of a service's topics, generated from its records.

Services are named by MODULE:NAME. By this name Spark's processes find them.
"""

from __future__ import annotations

from moneystate.kafka.formats.schemas import SchemaSet
from moneystate.records.schema import schema_of
from moneystate.runtime.folders import folder_of
from moneystate.runtime.job import topic_records
from moneystate.runtime.plans import plan_of
from moneystate.schemas import tree as trees


def has_further_versions(service: str) -> bool:
    return trees.has_further_versions(folder_of(service))


def schema_set(service: str) -> SchemaSet:
    """The schemas that the service reads and writes, and their other released versions."""
    current = {name: schema_of(record) for name, record in topic_records(plan_of(service)).items()}
    released = trees.tree_of(trees.read_folder(folder_of(service)))
    fingerprints = {taken.hex() for taken in SchemaSet(current.values()).by_fingerprint}
    others = [
        version.source
        for name, versions in released.versions.items()
        if not trees.is_state(name)
        for version in versions.values()
        if trees.full_name_of(version.source) in current and version.fingerprint not in fingerprints
    ]
    return SchemaSet(current.values(), others)
