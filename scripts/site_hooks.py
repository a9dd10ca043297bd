"""Hooks of the documentation site (mkdocs.yml): pages from outside docs/ become pages of the site."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
LINK = re.compile(r"(?P<text>!?\[[^\]]*\])\((?P<target>[^()\s]+)\)")
EXTERNAL = re.compile(r"^[a-z][a-z+.-]*:|^#")


def on_config(config: MkDocsConfig) -> None:
    """All decisions in the navigation."""
    decisions = sorted((ROOT / "docs" / "adr").glob("*.md"))
    assert config.nav is not None
    config.nav.append({"Decisions": [{title_of(path): f"adr/{path.name}"} for path in decisions]})


def title_of(path: Path) -> str:
    return path.read_text().partition("\n")[0].lstrip("# ")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, name in PAGES.items():
        files.append(File.generated(config, name, content=LINK.sub(as_on_site, (ROOT / source).read_text())))
    return files


def as_on_site(link: re.Match[str]) -> str:
    """The link as it is on the site. What the site does not have is named instead."""
    path, hash_mark, anchor = link["target"].partition("#")
    if EXTERNAL.match(link["target"]):
        return link[0]
    if path in PAGES:
        return f"{link['text']}({PAGES[path]}{hash_mark}{anchor})"
    if path.startswith("docs/") and (ROOT / path).is_file():
        return f"{link['text']}({path.removeprefix('docs/')}{hash_mark}{anchor})"
    return f"{link['text'].strip('![]')} (`{path}`)" if path not in link["text"] else f"`{path}`"
