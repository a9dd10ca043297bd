"""Names that say nothing and phrases that are no plain English are refused, with what to write instead."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "check_terms.py"
TERMS = """
[variables]
of = { instead = "the name of the thing" }
at = { instead = "position", except = ["pkg/words.py"] }
[openings]
Of = "Returns the age of"
[phrases]
"once more over" = "again"
"""


@pytest.fixture(scope="module")
def check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_terms", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        ("pkg/a.py", "def f(of: int) -> None: ...\n", (1, "of", "the name of the thing")),
        ("pkg/a.py", "x = 1\nfor at in range(3): ...\n", (2, "at", "position")),
        ("pkg/a.py", '"""It does it once more over."""\n', (1, "once more over", "again")),
        ("pkg/a.proto", "// Once more over.\n", (1, "once more over", "again")),
        ("pkg/a.py", 'def f() -> None:\n    """Of a call."""\n', (2, "Of", "Returns the age of")),
        ("pkg/a.py", "x = 1\n# of the batch\ny = 2\n", (2, "Of", "Returns the age of")),
        ("pkg/a.proto", "// Of a call.\n", (1, "Of", "Returns the age of")),
        ("docs/a.md", "\nDo it once more over.\n", (2, "once more over", "again")),
    ],
)
def test_a_word_is_refused_with_its_line(
    check: ModuleType, path: str, text: str, problem: tuple[int, str, str]
) -> None:
    assert list(check.problems(path, text, check.terms(TERMS))) == [problem]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pkg/a.py", '"""The time of it, at a place."""\n'),
        ("pkg/a.py", "request(at=3)\n"),
        ("pkg/words.py", "def f(at: int) -> None: ...\n"),
        ("pkg/a.py", "x = 3  # of the batch\n"),
        ("pkg/a.py", "# A comment of two lines.\n# Of these, the second begins with another word.\n"),
        ("docs/a.md", "Of these, two are words.\n"),
        ("docs/a.md", "Once more overall.\n"),
    ],
)
def test_english_and_words_in_their_own_files_are_left_alone(check: ModuleType, path: str, text: str) -> None:
    assert list(check.problems(path, text, check.terms(TERMS))) == []
