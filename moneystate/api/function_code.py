"""What a function of a service reaches by its names, and its code as text: the same in each process, another where the
function may give other results.

Functions, methods and constants of the function's own package count as its code. What is compiled, or of another
package, counts by its name alone.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")
_CONSTANTS: Final = (str, int, float, bytes, type(None), tuple, frozenset, list, dict, set)


def names_of(code: CodeType) -> Iterator[str]:
    """Of all that is read; a text may be one for `attrgetter`."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_of(constant)
        elif isinstance(constant, str):
            yield from constant.split(".")


def reached(function: FunctionType, *classes: type) -> list[Any]:
    """What the function's names stand for: in its module, in modules that it names, among the attributes of `classes`,
    and what it encloses. In the order of the names."""
    names = sorted(set(names_of(function.__code__)))
    used = [function.__globals__[name] for name in names if name in function.__globals__]
    used += [cell.cell_contents for cell in function.__closure__ or ()]
    used += [vars(one)[name] for one in used if isinstance(one, ModuleType) for name in names if name in vars(one)]
    for cls in classes:
        used += [method for name in names if isinstance(method := getattr(cls, name, None), FunctionType)]
        used += [prop.fget for name in names if isinstance(prop := getattr(cls, name, None), property)]
    return used


def code_text(function: Callable[..., Any], *classes: type) -> str:
    """`classes`: of what the function is called with, so that their methods count."""
    package = _package(function)
    return "\n".join(_texts(function, package, tuple(c for c in classes if _package(c) == package), set()))


def _texts(one: Any, package: str, classes: tuple[type, ...], seen: set[int]) -> Iterator[str]:
    one = inspect.unwrap(one) if callable(one) else one
    if isinstance(one, _CONSTANTS):
        yield _told(one)
    elif id(one) not in seen:
        seen.add(id(one))
        yield from _parts(one, package, classes, seen)


def _parts(one: Any, package: str, classes: tuple[type, ...], seen: set[int]) -> Iterator[str]:
    if isinstance(one, FunctionType):
        if _package(one) != package or one.__code__.co_filename.startswith("<"):  # made by a dataclass
            yield _name(one)
            return
        yield f"{_shown(one.__code__)} {_told(one.__defaults__)} {_told(one.__kwdefaults__)}"
        for used in reached(one, *classes):
            yield from _texts(used, package, classes, seen)
    elif isinstance(one, type) and _package(one) == package:
        for name, member in sorted(vars(one).items()):
            inner = getattr(member, "fget", None) or getattr(member, "__func__", member)
            if isinstance(inner, FunctionType) or (isinstance(inner, _CONSTANTS) and not name.startswith("__")):
                yield name
                yield from _texts(inner, package, classes, seen)
    elif callable(one):
        yield _name(one)


def _package(one: Any) -> str:
    return str(getattr(one, "__module__", "")).partition(".")[0]


def _name(one: Any) -> str:
    return f"{getattr(one, '__module__', '')}.{getattr(one, '__qualname__', type(one).__qualname__)}"


def _shown(code: CodeType) -> str:
    return f"{code.co_code.hex()} {code.co_names} {[_told(c) for c in code.co_consts]}"


def _told(value: Any) -> str:
    """Without addresses, and sets in an order that does not depend on hashes."""
    if isinstance(value, CodeType):
        return _shown(value)
    if isinstance(value, FunctionType):
        return _shown(value.__code__)
    if isinstance(value, (frozenset, set)):
        return f"{type(value).__name__} {sorted(map(_told, value))}"
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__} {list(map(_told, value))}"
    if isinstance(value, Mapping):
        return f"{type(value).__name__} {[(_told(k), _told(v)) for k, v in value.items()]}"
    return _ADDRESS.sub("", repr(value))
