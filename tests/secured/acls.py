"""The permissions of each command, as docs/security.md lists them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
ROW = re.compile(r"^\| `([a-z-]+)` \| (topic|group|transactional id) \| (.+) \| (.+) \|$", re.MULTILINE)
RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional id": ResourceType.TRANSACTIONAL_ID,
}
OPERATIONS = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
}
APPLICATION = "application"


class Permission(NamedTuple):
    command: str
    resource: str
    name: str
    operation: str


def permissions() -> list[Permission]:
    return [
        Permission(command, resource, name, operation)
        for command, resource, names, operations in ROW.findall(PAGE.read_text())
        for name in re.findall(r"`([^`]+)`", names)
        for operation in operations.split(", ")
    ]


def grant(admin: AdminClient, prefix: str, wanted: list[Permission]) -> None:
    """Each command's to the principal of that name, for the topics of `prefix`."""
    for future in admin.create_acls([_binding(prefix, p) for p in wanted]).values():
        future.result()


def _binding(prefix: str, p: Permission) -> AclBinding:
    name = prefix + p.name.replace("APPLICATION-ID", APPLICATION)
    pattern = ResourcePatternType.PREFIXED if name.endswith("*") else ResourcePatternType.LITERAL
    return AclBinding(
        RESOURCES[p.resource],
        name.removesuffix("*"),
        pattern,
        f"User:{p.command}",
        "*",
        OPERATIONS[p.operation],
        AclPermissionType.ALLOW,
    )
