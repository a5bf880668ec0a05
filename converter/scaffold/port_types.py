"""Chooses names and type variables for the ports of an undescribed operator."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.scaffold.quoting import identifier
from trtsmith.importers.opdef import TYPE_VARIABLES

_FIXED = {"float32": "F", "bool": "B", "int64": "N", "int32": "S"}


def port_names(given: Sequence[str], fallback: str, taken: Iterable[str] = ()) -> list[str]:
    """Makes identifiers close to the values' names; `fallback` for unnamed values."""
    used = set(taken) | {"fields", "shapes", "inputs", "np"}
    names = []
    for value in given:
        names.append(identifier(value, fallback, used))
        used.add(names[-1])
    return names


def type_variables(
    inputs: Mapping[str, str], outputs: Mapping[str, str], where: str
) -> tuple[list[str], list[str]]:
    """Chooses type variables of ports with these element types. Raises UsageError for types that plugins lack.

    Floating-point ports of one type are T, and may then be any of its types; ports of several types keep them.
    """
    floats = {dtype for dtype in (*inputs.values(), *outputs.values()) if dtype in TYPE_VARIABLES["T"]}
    one_type = len(floats) == 1 and any(dtype in floats for dtype in inputs.values())

    def variable(name: str, dtype: str) -> str:
        if dtype in floats and one_type:
            return "T"
        if dtype not in _FIXED:
            raise UsageError(
                f"{name!r} is of {dtype or 'an unknown type'}",
                where,
                "float32, float16, bfloat16, int32, int64 or bool; float16 and bfloat16 for all floating-point ports",
                "cast it where the operator is called",
            )
        return _FIXED[dtype]

    return [variable(*item) for item in inputs.items()], [variable(*item) for item in outputs.items()]


def variables_of(taken: Collection[tuple[str, ...]], inputs: int) -> list[str]:
    """Chooses type variables that allow these combinations of types and as few others as possible.

    inputs: the number of ports before the outputs. ValueError, with what is wrong, where no variables stand for them.
    """
    leaders: dict[int, str] = {}
    found = []
    for port in range(len(next(iter(taken)))):
        types = {one[port] for one in taken}
        leader = next(i for i in range(port + 1) if all(one[i] == one[port] for one in taken))
        if leader not in leaders:
            free = [
                variable
                for variable, allowed in sorted(TYPE_VARIABLES.items(), key=lambda item: len(item[1]))
                if types <= {*allowed} and (len(allowed) == 1 or variable not in leaders.values())
            ]
            side = f"input {port}" if port < inputs else f"output {port - inputs}"
            if not free or (port >= inputs and len(TYPE_VARIABLES[free[0]]) > 1):
                raise ValueError(
                    f"{side} takes {', '.join(sorted(types))}"
                    + " independently of the others" * bool(port)
                    + ", and a package's ports do not"
                )
            leaders[leader] = free[0]
        found.append(leaders[leader])
    return found
