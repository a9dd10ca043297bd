"""Checks the commands of the documentation: each command, flag, make target and environment variable in it exists.

`make check` runs it. It looks at shell blocks and at code in the text. Flags of a service's rules are known for the
services of this project; for any other service, every flag may be a rule.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer
from check_docs import HISTORY
from markdown_pages import ROOT, Page, page_of, pages

from moneystate.cli.known_services import KNOWN
from moneystate.cli.main import app
from moneystate.cli.rule_flags import flags as rule_flags
from moneystate.runtime.reference import made_at

EXAMPLES = {
    "orders": ("examples.orders.orders:service",),
    "credit": ("examples.credit.credit:service",),
}
SERVICES = {**EXAMPLES, **KNOWN}
ENDS = {";", "|", "||", "&&", "&", "(", ")", "do", "done", "until", "while", "then", "if", "!", "<", ">", "<<", ">&"}
ASSIGNMENT = re.compile(r"^\w+=")
OF_SERVICE = re.compile(r"^--[\w-]+\.")  # `--orders.wait` is the rule `--wait` of the service orders
ALTERNATIVES = re.compile(r"(?<=\S)\|\S+")
OPTIONAL = re.compile(r"\[([^\]\n]*)\]")
HEREDOC = re.compile(r"<<'?(\w+)'?\n.*?^\1$", re.MULTILINE | re.DOTALL)
ELLIPSIS = {"...", "…"}
FLAG = re.compile(r"^--[a-z][\w.-]*")
VARIABLE = re.compile(r"^\$?\{?(MONEYSTATE_[A-Z][A-Z_]*)\b")

Problem = tuple[int, str]


class Command(NamedTuple):
    """A command of the tree, or a group of them."""

    path: str
    flags: dict[str, bool]  # whether it takes a value
    words: int  # as many arguments as it takes; -1: any number
    takes_rules: bool
    commands: dict[str, Command]

    def all(self) -> Iterator[Command]:
        yield self
        for command in self.commands.values():
            yield from command.all()


def tree_of(command: Any, path: str) -> Command:
    options = {o: not p.is_flag for p in command.params if p.param_type_name == "option" for o in names_of(p)}
    arguments = [p.nargs for p in command.params if p.param_type_name == "argument"]
    return Command(
        path,
        {**options, "--help": False},
        -1 if -1 in arguments else sum(arguments),
        bool(command.ignore_unknown_options or command.context_settings.get("ignore_unknown_options")),
        {name: tree_of(c, f"{path} {name}") for name, c in getattr(command, "commands", {}).items()},
    )


def names_of(parameter: Any) -> list[str]:
    return [*parameter.opts, *parameter.secondary_opts]


class Checker:
    def __init__(self) -> None:
        root = typer.main.get_command(app)
        self.root = tree_of(root, "moneystate")
        self.flags = {flag for command in self.root.all() for flag in command.flags}
        self.rules = {name: rules_of(references) for name, references in SERVICES.items()}
        self.targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        self.sources = source_text()
        self.variables = set(re.findall(r"MONEYSTATE_[A-Z_]+", self.sources)) | variables_of(root)

    def problems(self, page: Page) -> Iterator[Problem]:
        for block in page.blocks:
            if block.language == "sh":
                try:
                    commands = list(commands_in(block.text))
                except ValueError as e:
                    yield block.line, f"this is no sh: {e}. Correct it"
                    continue
                for offset, words in commands:
                    yield from ((block.line + offset, text) for text in self.command_problems(words))
        for line, text in page.code():
            yield from ((line, problem) for problem in self.code_problems(text))

    def code_problems(self, text: str) -> Iterator[str]:
        if text.startswith(("moneystate ", "make ")):
            for _, words in commands_in(text):
                yield from self.command_problems(words)
        elif (flag := FLAG.match(text)) and not self.known_flag(flag[0]):
            yield f"`{text}`: no command has this flag. Write a flag of `moneystate COMMAND --help`"
        elif (variable := VARIABLE.match(text)) and variable[1] not in self.variables:
            yield f"`{text}`: nothing reads this variable. Write one that `moneystate COMMAND --help` shows"

    def known_flag(self, flag: str) -> bool:
        """Whether a command, a service's rules or a program beside the command line has the flag."""
        rule = OF_SERVICE.sub("--", flag)
        return flag in self.flags or any(rule in rules for rules in self.rules.values()) or f'"{flag}"' in self.sources

    def command_problems(self, words: list[str]) -> Iterator[str]:
        while words and ASSIGNMENT.match(words[0]):
            words = words[1:]
        if not words:
            return
        if Path(words[0]).name == "moneystate":
            yield from self.moneystate_problems(words[1:])
        elif words[0] == "make":
            targets = [w for w in words[1:] if re.fullmatch("[a-z]+", w)]
            yield from (f"make {t}: there is no such target. See `make help`" for t in targets if t not in self.targets)
        elif Path(words[0]).name == "python" and words[1:2] == ["-m"] and not module_exists(words[2]):
            yield f"python -m {words[2]}: there is no such module. Write its present name"

    def moneystate_problems(self, words: list[str]) -> Iterator[str]:
        command, count = self.root, 0
        left = iter(words)
        for word in left:
            if word in ELLIPSIS and command.commands:
                return
            if word.startswith("--"):
                name, equals, _ = word.partition("=")
                takes_value = command.flags.get(name)
                if takes_value is None and not (command.takes_rules and self.may_be_rule(name, words)):
                    yield f"{command.path} has no flag {name}. It has {', '.join(sorted(command.flags))}"
                    return
                if takes_value is not False and not equals:
                    next(left, None)
            elif command.commands:
                if not re.fullmatch(r"[a-z][a-z-]*", word):
                    return  # a placeholder, as in `moneystate COMMAND`
                if word not in command.commands:
                    yield f"there is no command {command.path} {word}. There is {', '.join(sorted(command.commands))}"
                    return
                command = command.commands[word]
            elif word not in ELLIPSIS:
                count += 1
        if 0 <= command.words < count:
            yield f"{command.path} takes {command.words} arguments, found {count}. Correct `{shlex.join(words)}`"

    def may_be_rule(self, flag: str, words: Sequence[str]) -> bool:
        named = [name for name in SERVICES if name in words or any(r in words for r in files_of(SERVICES[name]))]
        rule = OF_SERVICE.sub("--", flag)
        return not named or any(rule in self.rules[service] for service in named)


def rules_of(references: Sequence[str]) -> set[str]:
    return {flag for reference in references for flag in rule_flags(made_at(reference).rules)}


def files_of(references: Sequence[str]) -> list[str]:
    """As a path: `examples/orders/orders.py:service`."""
    split = [reference.rpartition(":") for reference in references]
    return [f"{module.replace('.', '/')}.py:{name}" for module, _, name in split]


def variables_of(command: Any) -> set[str]:
    own = [p.envvar for p in command.params if p.envvar]
    names = {name for envvar in own for name in ([envvar] if isinstance(envvar, str) else envvar)}
    return names.union(*(variables_of(c) for c in getattr(command, "commands", {}).values()))


def source_text() -> str:
    """All programs: those beside the command line declare their flags and variables in their own ways."""
    folders = ["moneystate", "services", "state_tools", "tests/bench", "tests/chaos", "examples", "scripts"]
    files = [*folders, "tests/conftest.py", ":!examples/**/*.md", ":!services/**/*.md"]
    names = subprocess.run(["git", "ls-files", *files], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / name for name in names.stdout.splitlines() if name.endswith((".py", ".sh", ".go"))]
    return "\n".join(path.read_text() for path in paths if path.is_file())


def module_exists(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    ours = name.split(".")[0] in ("moneystate", "services", "state_tools", "tests", "scripts")
    return not ours or path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()


def commands_in(text: str) -> Iterator[tuple[int, list[str]]]:
    """The commands of a shell script, each with its line from 0."""
    text = HEREDOC.sub(lambda m: "\n" * m[0].count("\n"), text)
    text = OPTIONAL.sub(lambda m: ALTERNATIVES.sub("", m[1]).replace("|", " "), text).replace("`", "")
    number = 0
    for line in text.replace("\\\n", " \f").split("\n"):
        lexer = shlex.shlex(line.replace("\f", " "), posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split = True
        command: list[str] = []
        for word in lexer:
            if word in ENDS:
                yield number, command
                command = []
            else:
                command.append(word)
        yield number, command
        number += 1 + line.count("\f")


def main(paths: list[str]) -> int:
    checker = Checker()
    chosen = [page_of(Path(path).resolve(), Path(path).read_text()) for path in paths] or pages()
    count = 0
    for page in chosen:
        if page.name.startswith(HISTORY):
            continue
        for line, message in sorted(set(checker.problems(page))):
            print(f"{page.name}:{line}: {message}.", file=sys.stderr)
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
