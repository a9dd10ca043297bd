"""Downloads jars with the Ivy that PySpark ships, without Maven or Docker.

Ivy downloads from Maven Central unless the user's environment names another repository. The first of these that exists
is used:

1. `MONEYSTATE_IVY_SETTINGS`, an Ivy settings file;
2. `DEFAULT_ARTIFACT_REPOSITORY`, a repository's address: the variable that Spark's own resolver reads;
3. `~/.ivy2.5.2/ivysettings.xml`, `~/.ivy2/ivysettings.xml`: the folders of Spark 4 and of Ivy;
4. the mirror of Central in `~/.m2/settings.xml`.

Java does not read `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, so they are passed to it as properties.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

from moneystate.devbroker.java import find_java
from moneystate.errors import SetupError

# 46 jars, one after the other, take 40 s on a good connection. A stalled mirror is abandoned after this time.
RESOLVE_TIMEOUT_S = 1200.0


@dataclass(frozen=True)
class Artifact:
    """One artifact of a Maven repository, with its runtime dependencies unless it is `alone`. No other artifact gets a
    newer revision of it."""

    organisation: str
    name: str
    revision: str
    alone: bool = False


def retrieve(artifacts: list[Artifact], into: Path, work_dir: Path) -> None:
    """Puts the jars of the artifacts and their dependencies into the folder `into`, named `artifact-revision.jar`.

    `work_dir` is for Ivy's cache, settings and log; the caller removes it. Raises SetupError with Ivy's messages.
    """
    module_file = work_dir / "ivy.xml"
    module_file.write_text(_module_xml(artifacts))
    pattern = str(into / "[artifact]-[revision].[ext]")
    command = [str(find_java()), *_proxy_options(os.environ), "-cp", _class_path(), "org.apache.ivy.Main"]
    command += _settings_options(os.environ, Path.home(), work_dir)
    command += ["-cache", str(work_dir / "cache"), "-ivy", str(module_file), "-confs", "default"]
    command += ["-types", "jar", "bundle", "-retrieve", pattern]
    log_file = work_dir / "ivy.log"
    try:
        with log_file.open("wb") as log:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=RESOLVE_TIMEOUT_S, check=False
            )
    except subprocess.TimeoutExpired:
        raise SetupError(f"Ivy: expected it to fetch the jars within {RESOLVE_TIMEOUT_S:.0f} s.", do=_HELP) from None
    if done.returncode != 0:
        raise SetupError(
            f"Ivy: expected it to fetch the jars, found exit code {done.returncode}: {_complaint(log_file)}", do=_HELP
        )


_HELP = (
    "check that Maven Central or your mirror can be reached; a mirror can be named by MONEYSTATE_IVY_SETTINGS "
    "(an Ivy settings file), DEFAULT_ARTIFACT_REPOSITORY (an address) or ~/.m2/settings.xml; then try again."
)


def _class_path() -> str:
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or not pyspark.submodule_search_locations:
        raise SetupError("expected PySpark, which includes Ivy, found none.", do="run make env.")
    jars = Path(pyspark.submodule_search_locations[0]) / "jars"
    class_path = [*jars.glob("ivy-*.jar"), *jars.glob("commons-cli-*.jar")]
    if len(class_path) < 2:
        raise SetupError(f"{jars}: expected Ivy and commons-cli among PySpark's jars.", do="run make clean env.")
    return os.pathsep.join(map(str, class_path))


def _module_xml(artifacts: list[Artifact]) -> str:
    dependencies = "".join(
        f"<dependency org={quoteattr(a.organisation)} name={quoteattr(a.name)} rev={quoteattr(a.revision)}"
        f' transitive="{"false" if a.alone else "true"}" force="true" conf="default->default,runtime"/>'
        for a in artifacts
    )
    return (
        '<ivy-module version="2.0"><info organisation="moneystate" module="devbroker"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def _settings_options(environ: Mapping[str, str], home: Path, work_dir: Path) -> list[str]:
    """Ivy's option `-settings` from the user's environment; empty: Ivy's defaults."""
    if named := environ.get("MONEYSTATE_IVY_SETTINGS"):
        return ["-settings", named]
    address = environ.get("DEFAULT_ARTIFACT_REPOSITORY")
    if not address:
        for settings in (home / ".ivy2.5.2" / "ivysettings.xml", home / ".ivy2" / "ivysettings.xml"):
            if settings.exists():
                return ["-settings", str(settings)]
        address = _maven_mirror(home / ".m2" / "settings.xml")
    if not address:
        return []
    settings = work_dir / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="mirror"/><resolvers>'
        f'<ibiblio name="mirror" m2compatible="true" root={quoteattr(address)}/></resolvers></ivysettings>'
    )
    return ["-settings", str(settings)]


def _maven_mirror(settings_file: Path) -> str | None:
    """The address of the first mirror of Central in Maven's settings."""
    try:
        root = ElementTree.parse(settings_file).getroot()
    except (OSError, ElementTree.ParseError):
        return None
    for mirror in root.iterfind("{*}mirrors/{*}mirror"):
        mirror_of = {part.strip() for part in mirror.findtext("{*}mirrorOf", "").split(",")}
        if mirror_of & {"*", "central", "external:*"} and "!central" not in mirror_of:
            return mirror.findtext("{*}url", "").strip() or None
    return None


def _proxy_options(environ: Mapping[str, str]) -> list[str]:
    options: list[str] = []
    for scheme in ("https", "http"):
        proxy = urlsplit(environ.get(f"{scheme}_proxy") or environ.get(f"{scheme.upper()}_PROXY") or "")
        if proxy.hostname:
            options.append(f"-D{scheme}.proxyHost={proxy.hostname}")
            options.append(f"-D{scheme}.proxyPort={proxy.port or 80}")
    excluded = environ.get("no_proxy") or environ.get("NO_PROXY")
    if options and excluded:
        hosts = [f"*{host}" if host.startswith(".") else host for host in excluded.replace(" ", "").split(",") if host]
        options.append("-Dhttp.nonProxyHosts=" + "|".join(hosts))
    return options


def _complaint(log_file: Path) -> str:
    """Ivy's problems on one line, without its repetitions."""
    lines = [line.strip() for line in log_file.read_text(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if "not found" in line or "unreachable" in line.lower() or "FAILED" in line]
    return " | ".join(dict.fromkeys((telling or lines)[-5:]))
