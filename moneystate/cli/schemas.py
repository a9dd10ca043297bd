"""`moneystate schemas`: checks whether a schema change may be released, and whether this program can read a state.

Exit codes: 0 everything is allowed, 1 something is not, 2 wrong use.
"""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from moneystate.cli import services
from moneystate.cli.command import add, new_group
from moneystate.cli.flag_groups import StoreFlags
from moneystate.cli.option import PATH, Panel, option, repeated
from moneystate.cli.options import Json
from moneystate.cli.tables import Cell, print_table
from moneystate.engine.avro import MAGIC
from moneystate.engine.clock import MIGRATIONS
from moneystate.errors import ConfigError
from moneystate.job.checkpoint import Checkpoint
from moneystate.runtime.folders import avro_root, folder_of
from moneystate.schemas.check import Finding, Functions, check, check_against
from moneystate.schemas.services import findings_of, functions_of, release_service
from moneystate.schemas.tree import RELEASED, Tree, is_state, read_folder, release, tree_of

REFUSED_EXIT_CODE = 1

FolderOption = Annotated[
    Path | None, option("avro", "Folder of the schemas.", Panel.input, PATH, shown="the program's own")
]


ServiceArgument = Annotated[
    str, typer.Argument(metavar="MODULE:SERVICE", help="A service, whose schemas are beside it.")
]


def check_command(
    store_flags: StoreFlags,
    service: ServiceArgument = "",
    against: Annotated[
        str, option("against", "A git commit, a folder of schemas or a checkpoint.", Panel.input, "COMMIT|PATH")
    ] = "",
    avro: FolderOption = None,
    json_output: Json = False,
) -> None:
    """Check schemas, also against earlier ones or a checkpoint."""
    path = services.load(service) if service else ""
    root = folder_of(path) if path else _root(avro)
    functions = functions_of(path) if path else functions_for(root)
    tree = tree_of(read_folder(root))
    findings = findings_of(path) if path else check(tree, functions)
    if against:
        store_flags.configure()
        if _is_checkpoint(against):
            # imported here, because only this check needs a Spark session
            from moneystate.cli.checkpoint_schemas import check_checkpoint

            findings += check_checkpoint(tree, Checkpoint(against), functions)
        else:
            findings += check_against(tree, _reference(root, against))
    if json_output:
        ok = all(f.ok for f in findings)
        typer.echo(json.dumps({"ok": ok, **_released(tree), "findings": [asdict(f) for f in findings]}))
    else:
        _show(findings, f"{service or root.name}: {_summary(tree, findings)}")
    if not all(f.ok for f in findings):
        raise typer.Exit(REFUSED_EXIT_CODE)


def _is_checkpoint(against: str) -> bool:
    """`against` may also be a git commit, such as `HEAD:`."""
    return (Path(against).is_dir() or "://" in against) and not Checkpoint(against).is_new()


def release_command(
    service: ServiceArgument = "",
    current: Annotated[
        list[str] | None,
        repeated(
            "current",
            "A version that the program reads from now on, such as events/Heartbeat=2.",
            Panel.input,
            "NAME=VERSION",
        ),
    ] = None,
    avro: FolderOption = None,
) -> None:
    """Add new versions to the list of releases.

    Released versions must not be edited any more. For a service, the command first writes the schemas of its
    records.
    """
    if service:
        typer.echo("\n".join(release_service(services.load(service))) or "nothing new")
        return
    root = _root(avro)
    tree = tree_of(read_folder(root))
    wanted = {**tree.current, **_current(tree, current or [])}
    tree.current = wanted
    bad = [f for f in check(tree, functions_for(root)) if not f.ok]
    if bad:
        _show(bad, f"nothing released, {len(bad)} not allowed")
        raise typer.Exit(REFUSED_EXIT_CODE)
    fresh = [
        f"{name} v{number}"
        for name, mine in sorted(tree.versions.items())
        for number in sorted(mine)
        if number not in (tree.released or {}).get(name, {})
    ]
    (root / RELEASED).write_text(release(tree, wanted))
    typer.echo("\n".join(fresh) or "nothing new")


def functions_for(root: Path) -> Functions:
    """This program's migrations, and the golden bytes if the folder is in a checkout."""
    golden = root.parent / "tests" / "golden"
    files = None
    if golden.is_dir():
        files = {path.relative_to(golden).as_posix() for path in golden.glob("*/*.hex")}
    return Functions({header[len(MAGIC) :].hex() for header in MIGRATIONS}, files)


def _root(avro: Path | None) -> Path:
    root = avro or avro_root()
    if not root.is_dir():
        raise ConfigError(f"--avro {root}: expected a folder of schemas, found none.", "check the path.")
    return root


def _current(tree: Tree, texts: list[str]) -> dict[str, int]:
    chosen = {}
    for text in texts:
        name, _, number = text.partition("=")
        versions = {} if is_state(name) else {str(version): version for version in tree.versions.get(name, {})}
        if number not in versions:
            raise ConfigError(
                f"--current {text}: expected a type of a topic and a version that exists.",
                f"give NAME=VERSION with one of {', '.join(sorted(n for n in tree.versions if not is_state(n)))}.",
            )
        chosen[name] = versions[number]
    return chosen


def _reference(root: Path, against: str) -> Tree:
    """The schemas of a folder or of a commit."""
    folder = Path(against)
    if folder.is_dir():
        files = read_folder(folder / "avro" if (folder / "avro").is_dir() else folder)
    else:
        files = _of_commit(root, against)
    tree = tree_of(files)
    if not tree.versions:
        raise ConfigError(f"--against {against}: expected schemas there, found none.", "check the commit or the path.")
    return tree


def _of_commit(root: Path, ref: str) -> dict[str, bytes]:
    if ref.startswith("-"):
        raise ConfigError(
            f"--against {ref}: expected a git commit, a folder of schemas or a checkpoint, found a flag.",
            "check the words after --against.",
        )
    done = subprocess.run(["git", "archive", "--format=tar", ref, "."], cwd=root, capture_output=True, check=False)
    if done.returncode:
        git_error = done.stderr.decode(errors="replace").strip().splitlines()[:1]
        raise ConfigError(
            f"--against {ref}: expected a git commit, a folder of schemas or a checkpoint, git says: "
            f"{' '.join(git_error)}.",
            "give one that exists.",
        )
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        members = [m for m in archive.getmembers() if m.isfile() and (m.name.endswith(".avsc") or m.name == RELEASED)]
        return {m.name: content.read() for m in members if (content := archive.extractfile(m)) is not None}


def _released(tree: Tree) -> dict[str, int]:
    released = (tree.released or {}).values()
    return {"records": len(released), "versions": sum(map(len, released))}


def _summary(tree: Tree, findings: list[Finding]) -> str:
    its, bad = _released(tree), sum(not f.ok for f in findings)
    released = f"{its['records']} records in {its['versions']} released versions"
    return released + (f"; findings: {len(findings) - bad} fine, {bad} not allowed" if findings else ", all fine")


def _show(findings: list[Finding], summary: str) -> None:
    console = Console()
    rows: list[list[Cell]] = [
        [Text("ok") if f.ok else Text("NO", "red"), f.schema, f.versions, f.path, f.rule, f.compatibility, f.text]
        for f in findings
    ]
    if rows:
        print_table(console, ["", "schema", "versions", "where", "rule", "compatible", "what"], rows)
    bad = [f for f in findings if not f.ok]
    for f in bad:
        console.print(f"{f.path}: {f.text}. Do: {f.fix}", highlight=False, soft_wrap=True, markup=False)
    console.print(summary, highlight=False, soft_wrap=True, markup=False)


app = new_group("schemas", "Schemas: check changes, release versions.")
add(app, check_command, "check")
add(app, release_command, "release")
