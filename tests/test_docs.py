"""The checks of the documentation find what has rotted: links, paths, code blocks, commands, flags and variables."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
SOUND = """
# A page

## One thing

[this](page.md#one-thing), [here](#one-thing), `tests/test_docs.py`, `--bound 5s`, `--wait`, `MONEYSTATE_BOUND`,
`moneystate COMMAND`

```python
def f() -> None: ...
```

```json
{"a": 1}
{"b": 2}
```

```sh
A=1 moneystate run orders --config FILE --wait 10m --orders.wait=5m --until-caught-up &   # until SIGTERM
.venv/bin/moneystate checkpoint fingerprint PLACE [--at-version EPOCH/BATCH | --at-time ISO]
moneystate run service_of_yours.py:service --any-rule 1
python send.py <<'END'
moneystate nothing
END
make check
```
"""
ROTTEN = {
    "[a](missing.md)": "leads nowhere",
    "[a](page.md#missing)": "has no heading",
    "`moneystate/missing.py`": "no such file",
    "```python\ndef f(:\n```": "no python",
    "```toml\na = = 1\n```": "no toml",
    '```json\n{"a": }\n```': "no json",
    "```\nsome\n```": "a code block with nothing as its language",
    "text\n\n    indented": "a code block with indentation as its language",
    "`--missing 1`": "no command has this flag",
    "`MONEYSTATE_MISSING`": "nothing reads this variable",
    "`moneystate checkpoint take USER`": "no command moneystate checkpoint take",
    "```sh\nA=1 moneystate serve --missing 5s\n```": "moneystate serve has no flag --missing",
    "```sh\nmoneystate run joining --missing 1\n```": "moneystate run has no flag --missing",
    "```sh\ntrue | moneystate checkpoint show && moneystate missing\n```": "no command moneystate missing",
    "```sh\nmoneystate kafka start now\n```": "takes 0 arguments, found 1",
    "```sh\nmake missing\n```": "no such target",
    "```sh\npython -m tests.missing\n```": "no such module",
    "```sh\necho 'a\n```": "no sh",
}


@pytest.fixture(scope="module")
def checks() -> list[ModuleType]:
    sys.path.insert(0, str(SCRIPTS))
    try:
        return [importlib.import_module(name) for name in ("check_docs", "check_docs_commands")]
    finally:
        sys.path.remove(str(SCRIPTS))


def found(checks: list[ModuleType], folder: Path, text: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    page = folder / "page.md"
    page.write_text(text)
    codes = [check.main([str(page)]) for check in checks]
    messages = capsys.readouterr().err.splitlines()
    assert any(codes) == bool(messages)
    return messages


def test_a_page_without_faults_passes(
    checks: list[ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert found(checks, tmp_path, SOUND, capsys) == []


@pytest.mark.parametrize(("text", "problem"), ROTTEN.items())
def test_each_fault_is_found_once_with_its_line(
    checks: list[ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    (message,) = found(checks, tmp_path, "# A page\n\n" + text + "\n", capsys)
    assert problem in message
    assert message.startswith(f"{tmp_path}/page.md:")
