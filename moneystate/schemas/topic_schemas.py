"""The schemas of a service's topics, generated from its records.

Services are named by MODULE:NAME. By this name Spark's processes find them.
"""

from __future__ import annotations

from moneystate.records.schema import schema_of
from moneystate.records.schema_set import SchemaSet
from moneystate.runtime.folders import folder_of
from moneystate.runtime.job import topic_records
from moneystate.runtime.plans import plan_of
from moneystate.schemas.tree import TOPIC_FOLDERS, full_name_of, is_state, read_folder, tree_of


def has_further_versions(service: str) -> bool:
    """Whether any type in topics has more than one version."""
    root = folder_of(service)
    return any(next((root / folder).glob("*/v*.avsc"), None) for folder in TOPIC_FOLDERS)


def schema_set(service: str) -> SchemaSet:
    """The schemas that the service reads and writes, and their other released versions."""
    current = {name: schema_of(record) for name, record in topic_records(plan_of(service)).items()}
    fingerprints = {known.hex() for known in SchemaSet(current.values()).by_fingerprint}
    others = [
        version.source
        for name, versions in tree_of(read_folder(folder_of(service))).versions.items()
        if not is_state(name)
        for version in versions.values()
        if full_name_of(version.source) in current and version.fingerprint not in fingerprints
    ]
    return SchemaSet(current.values(), others)
