"""Retired terms are found in names and docs, with what to write instead; words of the language are left alone."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "check_terms.py"
PAGE = """
## Modules

| Retired | Write instead |
|---|---|
| `pkg/held.py` | `pkg/deferred_close.py` |

## Identifiers

| Retired | Write instead | Kind | Files |
|---|---|---|---|
| `OldThing` | `NewThing` | any | `*` |
| `settle` | `publish_quiescent` | attr | `pkg/store.py`, `pkg/other.py` |

## Words that are not names of variables

| Retired | Write instead | Except in |
|---|---|---|
| `of` | what it is | |
| `at` | `pos` | `pkg/words.py` (their own word) |

## Phrases in documentation

| Retired | Write instead |
|---|---|
| `the plain way` | the per-user baseline |
"""


@pytest.fixture(scope="module")
def check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_terms", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def hits(check: ModuleType, path: str, text: str) -> list[tuple[int, str, str]]:
    retired = check.terms(PAGE)
    pairs = {*check.in_text(path, text, retired), *(check.in_code(path, text, retired) if path.endswith(".py") else [])}
    return sorted((line, r.term, r.instead) for line, r in pairs)


@pytest.mark.parametrize(
    ("path", "text", "line", "term"),
    [
        ("pkg/a.py", "x = 1\nclass OldThing: ...\n", 2, "OldThing"),
        ("pkg/a.py", '"""Of `OldThing`."""\n', 1, "OldThing"),
        ("docs/a.md", "The class OldThing.\n", 1, "OldThing"),
        ("pkg/store.py", "store.settle()\n", 1, "settle"),
        ("pkg/a.py", "def f(of: int) -> None: ...\n", 1, "of"),
        ("pkg/a.py", "for at in range(3): ...\n", 1, "at"),
        ("pkg/a.py", "from pkg.held import x\n", 1, ""),
        ("docs/a.md", "Faster than the plain way.\n", 1, "the plain way"),
        ("docs/a.md", "See `pkg/held.py`.\n", 1, "pkg/held.py"),
    ],
)
def test_a_retired_term_is_found_with_its_line(check: ModuleType, path: str, text: str, line: int, term: str) -> None:
    (hit,) = hits(check, path, text)
    assert hit[:2] == (line, term or "pkg/held.py")
    assert hit[2]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pkg/a.py", '"""What is known of it, at a time."""\n'),
        ("pkg/a.py", "store.settle()\n"),
        ("pkg/store.py", "settle = 1\n"),
        ("pkg/words.py", "def f(at: int) -> None: ...\n"),
        ("pkg/a.py", "request(at=3)\n"),
        ("pkg/a.py", "NewOldThings = 1\n"),
        ("docs/a.md", "They settle at the end of it.\n"),
    ],
)
def test_english_other_files_and_other_kinds_of_use_are_left_alone(check: ModuleType, path: str, text: str) -> None:
    assert hits(check, path, text) == []


def test_the_project_s_own_page_is_understood(check: ModuleType) -> None:
    retired = check.terms((SCRIPT.parents[1] / "docs" / "renames.md").read_text())
    assert all(retired)
    assert {r.term for r in retired.variables} == {"of", "at", "found", "kept", "said", "what"}
