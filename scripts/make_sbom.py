"""Makes the SBOM: all packages of the locks and all jars, in CycloneDX. `make sbom` runs it.

The scope of packages that only development needs, and of the development broker's jars, is `excluded`. PySpark's jars
are components of PySpark. The same lock and jars give the same bytes: the time in the document is that of the last
commit (or `SOURCE_DATE_EPOCH`), and its serial number follows from its content.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from lock_file import DEVELOPMENT, PROJECT, ROOT, RUN_TIME, Pin, pins
from packageurl import PackageURL

from moneystate.devbroker.jars import KAFKA_VERSION, kafka_jars

OUT: Final = ROOT / "build" / "sbom.cdx.json"
JAR: Final = re.compile(r"(?P<name>.+?)-(?P<version>\d[^/]*)\.jar")
POM: Final = re.compile(r"META-INF/maven/[^/]+/[^/]+/pom\.properties")


def spark_jars() -> Path:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "jars"


def bom() -> Bom:
    made = Bom()
    made.metadata.component = project = _project()
    made.metadata.timestamp = _time()
    of_run, of_development = pins(RUN_TIME.read_text()), pins(DEVELOPMENT.read_text())
    packages = [(pin, _package(pin, True)) for pin in of_run]
    in_both = {pin.name for pin in of_run}  # on some platforms a run needs them, on the others development alone
    packages += [(pin, _package(pin, False)) for pin in of_development if pin.name not in in_both]
    broker = Component(
        name="moneystate-development-broker", version=KAFKA_VERSION, type=ComponentType.APPLICATION,
        bom_ref=f"development-broker@{KAFKA_VERSION}", scope=ComponentScope.EXCLUDED,
        components=jars(kafka_jars(), "development-broker", ComponentScope.EXCLUDED),
    )  # fmt: skip
    made.components.update([*(component for _, component in packages), broker])
    _add_dependencies(made, project, packages)
    # `urn:uuid` of the content, which until here has the serial number 0
    made.serial_number = uuid.UUID(int=0)
    made.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, text_of(made))
    return made


def text_of(made: Bom) -> str:
    return JsonV1Dot6(made).output_as_string(indent=1) + "\n"


def jars(folder: Path, owner: str, scope: ComponentScope) -> list[Component]:
    """The jars of a folder. `owner`: what they are parts of."""
    return [_jar(path, owner, scope) for path in sorted(folder.glob("*.jar"))]


def _jar(path: Path, owner: str, scope: ComponentScope) -> Component:
    group, name, version = _coordinates(path)
    purl = PackageURL("maven", group, name, version) if group else None
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Component(
        name=name, version=version, group=group or None, type=ComponentType.LIBRARY, scope=scope, purl=purl,
        bom_ref=f"{owner}/{path.name}", hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
    )  # fmt: skip


def _coordinates(path: Path) -> tuple[str, str, str]:
    """Group, name and version. The group is empty if the jar does not say it: the file's name has no group. A jar that
    includes others has the properties of all; its own are those that the file is named after."""
    named = JAR.fullmatch(path.name)
    name, version = (named["name"], named["version"]) if named else (path.stem, "")
    with ZipFile(path) as jar:
        for pom in filter(POM.fullmatch, sorted(jar.namelist())):
            _, _, group, artifact, _ = pom.split("/")
            if artifact == name or path.stem.startswith(f"{artifact}-{version}"):
                return group, artifact, version
    return "", name, version


def _package(pin: Pin, at_run_time: bool) -> Component:
    scope = ComponentScope.REQUIRED if at_run_time else ComponentScope.EXCLUDED
    purl = PackageURL("pypi", None, pin.name, pin.version)
    parts = jars(spark_jars(), pin.name, scope) if pin.name == "pyspark" else []
    return Component(
        name=pin.name, version=pin.version, type=ComponentType.LIBRARY, scope=scope, purl=purl,
        bom_ref=purl.to_string(), components=parts,
    )  # fmt: skip


def _project() -> Component:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    name, version = project["name"], project["version"]
    return Component(
        name=name, version=version, type=ComponentType.APPLICATION, purl=PackageURL("pypi", None, name, version),
        bom_ref=f"{name}@{version}", licenses=[LicenseExpression(project["license"])],
    )  # fmt: skip


def _add_dependencies(made: Bom, project: Component, packages: Iterable[tuple[Pin, Component]]) -> None:
    by_name: dict[str, list[Component]] = {PROJECT: [project]}
    for pin, component in packages:
        by_name.setdefault(pin.name, []).append(component)
    needs: dict[Component, list[Component]] = {component: [] for one in by_name.values() for component in one}
    for pin, component in packages:
        for asking in pin.asked_by:
            for user in by_name.get(asking, []):
                needs[user].append(component)
    for user, used in needs.items():
        made.register_dependency(user, used)


def _time() -> datetime:
    seconds = os.environ.get("SOURCE_DATE_EPOCH") or "".join(_commit_time())
    return datetime.fromtimestamp(int(seconds or 0), UTC)


def _commit_time() -> Iterator[str]:
    """Nothing outside a checkout."""
    if (ROOT / ".git").exists():
        command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
        yield subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main(arguments: list[str]) -> Any:
    out = Path(arguments[0]) if arguments else OUT
    out.parent.mkdir(parents=True, exist_ok=True)
    made = bom()
    out.write_text(text_of(made))
    parts = sum(len(component.components) for component in made.components)
    print(f"{out}: {len(made.components) - 1} packages, {parts} jars")


if __name__ == "__main__":
    main(sys.argv[1:])
