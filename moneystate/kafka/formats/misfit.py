"""Says why a record cannot be read as one of ours although its schema can: the field, and the symbol or the types.

Only called for records that fastavro refuses to resolve.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any, Final

from fastavro import schemaless_reader

from moneystate.schemas.resolve import PROMOTIONS

_KINDS: Final[dict[type, tuple[str, ...]]] = {  # of a union's values, by their Python types
    type(None): ("null",),
    bool: ("boolean",),
    int: ("int", "long"),
    float: ("float", "double"),
    str: ("string",),
    bytes: ("bytes",),
    list: ("array",),
    dict: ("map",),
}


def misfit(writer: Any, reader: Any, body: bytes) -> str:
    """`writer`, `reader`: as fastavro's parse_schema returns them. `body`: a whole body of `writer`."""
    datum = schemaless_reader(BytesIO(body), writer, None, return_named_type=True)
    walk = _Walk(writer["__named_schemas"], reader["__named_schemas"])
    short = str(reader["name"]).rpartition(".")[2]
    return walk.problem(writer, reader, datum, short) or f"its writer schema does not fit the current {short}"


class _Walk:
    """The schema of the writer and ours, side by side, along one record."""

    def __init__(self, writer_names: dict[str, Any], reader_names: dict[str, Any]) -> None:
        self._writer_names = writer_names
        self._reader_names = reader_names

    def problem(self, writer: Any, reader: Any, value: Any, path: str) -> str:
        """The first problem, with the field's path; "": none was found."""
        if isinstance(writer, list):
            writer, value = self._branch(writer, value)
        written = _type(writer, self._writer_names)
        if isinstance(reader, list):
            return self._in_union(written, reader, value, path)
        wanted = _type(reader, self._reader_names)
        kind, wanted_kind = written["type"], wanted["type"]
        if kind != wanted_kind:
            return (
                "" if kind in PROMOTIONS.get(wanted_kind, ()) else f"{path}: written as {kind}, read as {wanted_kind}"
            )
        if kind == "record":
            return self._in_record(written, wanted, value, path)
        if kind == "enum":
            known = value in wanted["symbols"] or "default" in wanted
            return "" if known else f"{path}: the symbol {value} is not one of {', '.join(wanted['symbols'])}"
        if kind == "array":
            return self._in_items(written["items"], wanted["items"], value, path)
        if kind == "map":
            return self._in_items(written["values"], wanted["values"], value.values(), path)
        return ""

    def _branch(self, branches: list[Any], value: Any) -> tuple[Any, Any]:
        """The branch of the writer's union that a value belongs to, and the value."""
        if isinstance(value, tuple):  # of a named type
            return value
        kinds = _KINDS[type(value)]
        return next(branch for branch in branches if _type(branch, self._writer_names)["type"] in kinds), value

    def _in_union(self, written: Any, branches: list[Any], value: Any, path: str) -> str:
        same = [b for b in branches if _type(b, self._reader_names)["type"] == written["type"]]
        problems = [self.problem(written, branch, value, path) for branch in same or branches]
        return problems[0] if all(problems) else ""

    def _in_record(self, written: Any, wanted: Any, value: dict[str, Any], path: str) -> str:
        fields = {field["name"]: field for field in written["fields"]}
        for field in wanted["fields"]:
            where = f"{path}.{field['name']}"
            name = next((n for n in (field["name"], *field.get("aliases", ())) if n in fields), None)
            if name is None:
                if "default" not in field:
                    return f"{where}: not in the writer's schema, and without a default"
                continue
            problem = self.problem(fields[name]["type"], field["type"], value[name], where)
            if problem:
                return problem
        return ""

    def _in_items(self, written: Any, wanted: Any, values: Any, path: str) -> str:
        problems = (self.problem(written, wanted, value, f"{path}[]") for value in values)
        return next((problem for problem in problems if problem), "")


def _type(schema: Any, names: dict[str, Any]) -> dict[str, Any]:
    """The type as an object with its `type`."""
    if isinstance(schema, str):
        return names.get(schema) or {"type": schema}
    return _type(schema["type"], names) if isinstance(schema["type"], (dict, list)) else schema
