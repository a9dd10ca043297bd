"""Each command that the program advises is run as it is printed, on what the error is about.

The flags that the failed command had are given as environment variables, so that the words stay as they are printed.
The broker is real, because most commands begin with a look at it.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moneystate.cli import main
from moneystate.devbroker import DevBroker
from moneystate.runtime.plans import plan_of
from tests.cli.advice_cases import CASES, Advice, Place
from tests.cli.command_texts import texts_with_commands
from tests.kafka.logs import Cluster

# Texts that name a command and advise nothing: what was run, what is missing, help.
NO_ADVICE = (
    r"moneystate run X: .*", r"moneystate apply: .*", r"moneystate X: .*", r"moneystate X \(X\)",
    r"moneystate X, Spark X, .*",
    r"moneystate ingest", r"moneystate table load", r"moneystate table load, twice, .*", r"moneystate serve: .*",
    r"moneystate deliver", r"moneystate deliver: .*", r"moneystate deliver --listen: .*",
    r"moneystate run delivery: .*",
    r"moneystate run rollups: .*", r"moneystate state", r"moneystate state X: .*", r"moneystate transactions abort, X",
    r"A savepoint, a stopped job's checkpoint, or HOST:PORT of `moneystate serve`\.",
    r"File of `moneystate plan --save`: .*", r"--approved X: expected a file of moneystate plan --save, .*",
)  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, broker: DevBroker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield Place(tmp_path, Cluster(broker.bootstrap_servers, topic_prefix), monkeypatch)
    forget_services()


def forget_services() -> None:
    """The next case declares another service under the same name."""
    sys.modules.pop("advised", None)
    plan_of.cache_clear()


@pytest.mark.parametrize("provoke", CASES, ids=lambda one: one.__name__)
def test_an_advised_command_is_accepted_as_it_is_printed(
    provoke: Callable[[Place], Advice], place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    advice = provoke(place)
    assert f"moneystate {advice.words}" in advice.text
    for flag, value in advice.given.items():
        place.monkeypatch.setenv(f"MONEYSTATE_{flag.upper().replace('-', '_')}", value)
    words = shlex.split(advice.words)
    if "SAVEPOINT" in words:
        words[words.index("SAVEPOINT")] = place.savepoint()
    code, printed = moneystate([*words, *advice.more], place.monkeypatch, capsys)
    assert (code, advice.says in printed) == (advice.code, True), printed
    assert "see moneystate" not in printed


def moneystate(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """The exit code, and what was printed."""
    monkeypatch.setattr(sys, "argv", ["moneystate", *words])
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main.main()
    shown = capsys.readouterr()
    return int(end.value.code or 0), shown.out + shown.err


def test_the_help_that_a_wrong_command_or_file_is_told_to_see_exists(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "a.toml"
    file.write_text("[dead-letters.list]\nlimt = 3\n")
    for words in (
        ["ask", "--limit", "x"],
        ["dead-letters", "list", "--config", str(file)],
        ["checkpoint", "show", "--x"],
    ):
        code, printed = moneystate(words, monkeypatch, capsys)
        (advised,) = re.findall(r"see moneystate ((?:[a-z][a-z-]* )+--help)", printed)
        assert code == 2
        assert moneystate(advised.split(), monkeypatch, capsys)[0] == 0


def test_each_text_with_a_command_has_a_case(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    told_texts = []
    for number, provoke in enumerate(CASES):
        folder = place.folder / str(number)
        folder.mkdir()
        with monkeypatch.context() as own:
            cluster = Cluster(place.cluster.bootstrap_servers, f"{place.cluster.prefix}{number}-")
            told_texts.append(provoke(Place(folder, cluster, own)).text)
        forget_services()
    without = [
        (where, text)
        for where, text in texts_with_commands()
        if not any(re.fullmatch(pattern, text) for pattern in NO_ADVICE)
        and not any(re.search(re.escape(text).replace("X", ".+"), told_text) for told_text in told_texts)
    ]
    assert without == []
