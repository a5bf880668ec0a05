"""Drafts operators from the answers of a library's V2 plugins: fields, ports, formats, shapes and workspace."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx.defs

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.compile.definitions.formulas import Formula, value_of
from trtsmith.converter.plugin.calls import OUTPUTS
from trtsmith.converter.plugin.contract import ContractCase
from trtsmith.converter.plugin.host.host_worker import LibraryWorker, WorkerDiedError
from trtsmith.converter.plugin.host.plugin_values import Shape
from trtsmith.converter.plugin.migration_check import observed
from trtsmith.converter.plugin.observation import VARY
from trtsmith.converter.scaffold.draft import Draft
from trtsmith.converter.scaffold.names import Names, check_names
from trtsmith.converter.scaffold.plugin_rules import Rules, python_text, rules_with_fields
from trtsmith.converter.scaffold.port_types import variables_of
from trtsmith.converter.scaffold.quoting import literal
from trtsmith.converter.scaffold.reference_source import unwritten
from trtsmith.importers.counted import counted
from trtsmith.importers.opdef import PORT_TYPES, TYPE_VARIABLES, Attr, Field, Kind, Port, Value
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import by_name

_VERSION = re.compile(r"[A-Za-z0-9_.-]{1,60}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,59}")


@dataclass(frozen=True)
class MigratedPlugin:
    """One V2 plugin and the operator drafted from it.

    rules:     None where they are to be written by hand. samples: shapes of inputs and of outputs that it gave.
    workspace: bytes for each sample. wider: types that the new plugin takes and the old one does not.
    notes:     what else the user must know.
    """

    plugin: str
    draft: Draft
    rules: Rules | None
    samples: tuple[tuple[tuple[Shape, ...], tuple[Shape, ...]], ...]
    workspace: tuple[int, ...]
    wider: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        draft = self.draft
        return {
            "plugin": self.plugin,
            "version": draft.version,
            "operator": draft.names.name,
            "fields": [
                {"name": f.name, "kind": f.kind.value, "length": f.length, "default": f.default}
                for f in draft.fields
            ],
            "inputs": [{"type": port.type, "rank": port.rank} for port in draft.inputs],
            "outputs": [{"type": port.type, "rank": port.rank} for port in draft.outputs],
            "shapes": draft.rules,
            "workspace": self.workspace,
            "wider": self.wider,
            "notes": self.notes,
        }


def migrate_plugins(
    library: Path, cases: Mapping[str, Sequence[ContractCase]], package: str, domain: str, timeout_s: float
) -> tuple[list[MigratedPlugin], list[Problem]]:
    """Migrates the plugins that cases use, with reasons for the others. Raises UsageError if the library does not load.

    cases: by plugin, NAME or NAME:VERSION. package: the Python package that is to be written. domain: in which models have
    the plugins' nodes.
    """
    made: list[MigratedPlugin] = []
    problems: list[Problem] = []
    with LibraryWorker(library, None, timeout_s) as worker:
        creators = worker.start()["creators"]
        for plugin, known in cases.items():
            index = creator_of(creators, plugin)
            found_v2 = [
                one for one in creators if one["name"] == creators[index]["name"] and one["family"] != 3
            ]
            others = [one["version"] for one in found_v2 if one is not creators[index]]
            try:
                known = [_with_defaults(creators[index], case) for case in known]
                base = max(known, key=lambda case: len(case.inputs))
                found = _asked(worker, index, creators[index], base)
                more = [(case, _shapes(worker, index, case)) for case in known if case is not base]
                drafting = _Drafting(creators[index], base, found, more, package, domain)
                made.append(drafting.drafted(others))
            except ValueError as error:
                problems.append(_refusal(library, plugin, str(error)))
    return made, problems


def creator_of(creators: Sequence[Mapping[str, Any]], plugin: str) -> int:
    """Finds the index of NAME or NAME:VERSION, of V2 plugins before others; -1 if there is none."""
    name, _, version = plugin.partition(":")
    found = [i for i, one in enumerate(creators) if one["name"] == name and version in ("", one["version"])]
    return next((i for i in found if creators[i]["family"] != 3), found[0] if found else -1)


def _refusal(library: Path, plugin: str, what: str) -> Problem:
    return Problem(
        f"{plugin} cannot be migrated: {what}",
        f"plugin {plugin} of {library}",
        "an IPluginV2DynamicExt plugin of linear tensors, with fields of numbers, that answers as TensorRT asks",
        "correct it, or migrate the others: --plugin NAME, once for each",
    )


def _asked(
    worker: LibraryWorker, index: int, creator: Mapping[str, Any], case: ContractCase
) -> dict[str, Any]:
    if creator["family"] == 3:
        raise ValueError("it is a V3 plugin already")
    try:
        found = observed(worker, index, case)
    except WorkerDiedError as death:
        raise ValueError(f"the plugin {death}") from death
    if "problem" in found:
        raise ValueError(found["problem"])
    if not found["combinations"]:
        count = len(case.inputs)
        raise ValueError(
            f"it takes no types and formats with {counted(count, 'input')}; give as many as it has, of its types"
        )
    if not found["complete"]:
        raise ValueError(f"it takes {len(found['combinations'])} combinations of types and formats, or more")
    try:
        return found | {"note": ""} | worker.ask(index, VARY, case)
    except WorkerDiedError as death:
        note = f"with other values of its fields it {death}; whether shapes follow them was not seen"
        return found | {"note": note, "rules": None, "changed": [], "minimum": {}, "optional": []}


def _with_defaults(creator: Mapping[str, Any], case: ContractCase) -> ContractCase:
    """The case with every field that the creator has a default of, since what is not given cannot be changed either."""
    given = {one["name"]: one for one in creator["fields"] if one["default"] is not None}
    defaults = {
        name: one["default"][0] if one["length"] == 1 else tuple(one["default"])
        for name, one in given.items()
        if isinstance(one["default"], list)
    }
    return replace(case, fields={**defaults, **case.fields})


def _shapes(worker: LibraryWorker, index: int, case: ContractCase) -> list[Shape]:
    """Shapes of the outputs in another case; none where the plugin does not take it."""
    try:
        answer = worker.ask(index, OUTPUTS, case)
    except WorkerDiedError as death:
        raise ValueError(f"the plugin {death}") from death
    return [tuple(one["shape"]) for one in answer.get("outputs", ())]


@dataclass(frozen=True)
class _Drafting:
    """What is known of one plugin. case: that was observed, with what was found. others: with shapes of their outputs."""

    creator: Mapping[str, Any]
    case: ContractCase
    found: Mapping[str, Any]
    others: Sequence[tuple[ContractCase, list[Shape]]]
    package: str
    domain: str

    def drafted(self, other_versions: Sequence[str]) -> MigratedPlugin:
        plugin, case, found = self.case.plugin, self.case, self.found
        names = self._names()
        taken, left_out = self._types()
        samples = tuple(
            (tuple(map(tuple, inputs)), tuple(map(tuple, outputs))) for inputs, outputs in found["samples"]
        )
        inputs, outputs = self._ports(taken, *samples[0])
        fields, notes = self._fields()
        values: dict[str, Any] = {
            field.name: _value(field, case.fields.get(field.name, field.default)) for field in fields
        }
        rules, odd_ranks = self._rules(values, samples)
        notes += [*odd_ranks, *self._notes(left_out, other_versions)]
        place = f"{self.package}/{names.snake}.py"
        no_rule = f"write _shape in {place}: the shapes above follow no known rule"
        tried = "\n".join(f"    # {row}" for row in shape_lines(samples))
        draft = Draft(
            names=names,
            doc=f"What the V2 plugin {plugin} computes.",
            origin="of the answers of a V2 plugin",
            command="plugin migrate",
            inputs=inputs,
            outputs=outputs,
            fields=tuple(_bounded(field, self.found["minimum"], rules or ()) for field in fields),
            alias=(self.domain, plugin),
            attributes=tuple(Attr(field.name, field.kind, field.default) for field in fields),
            source=f"the V2 plugin {plugin}",
            rules={
                port.name: tuple(python_text(dim, [port.name for port in inputs]) for dim in dims)
                for port, dims in zip(outputs, rules, strict=True)
            }
            if rules is not None
            else None,
            equal=(),
            fixed=(),
            cases={
                "small" if not at else f"other_sizes_{at}": dict(
                    zip((p.name for p in inputs), shapes, strict=True)
                )
                for at, (shapes, _) in enumerate(samples)
            },
            values=values,
            reference=unwritten(names, "the V2 plugin", place),
            opset=11,
            example=b"",
            no_rule=f"{tried}\n    raise NotImplementedError({literal(no_rule)})\n",
            version=str(self.creator["version"]),
            has_kernel=True,
            workspace=any(found["workspace"]),
        )
        return MigratedPlugin(
            plugin,
            draft,
            rules,
            samples,
            tuple(found["workspace"]),
            _wider([*inputs, *outputs], taken),
            tuple(dict.fromkeys(notes)),
        )

    def _types(self) -> tuple[set[tuple[str, ...]], list[str]]:
        """The combinations of types of linear tensors, and the types that a package's plugins do not have."""
        taken = {tuple(dtype for dtype, _ in one) for one in self.found["combinations"] if _linear(one)}
        if not taken:
            raise ValueError("it takes no linear tensors, and a package's plugins take no others")
        known = {one for one in taken if PORT_TYPES.issuperset(one)} or taken
        return known, sorted({dtype for one in taken - known for dtype in one} - PORT_TYPES)

    def _ports(
        self, taken: set[tuple[str, ...]], inputs: Sequence[Shape], outputs: Sequence[Shape]
    ) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
        """The ports, with the shapes of the first sample in their descriptions."""
        count = len(self.case.inputs)
        variables = variables_of(taken, count)
        fewest = min([count, *(len(one.inputs) for one, shapes in self.others if shapes)])

        def ports(side: str, shapes: Sequence[Shape], kinds: Sequence[str], least: int) -> tuple[Port, ...]:
            return tuple(
                Port(f"{side}_{i}", kind, len(shape), f"{_shown(shape)} in the example", optional=i >= least)
                for i, (shape, kind) in enumerate(zip(shapes, kinds, strict=True))
            )

        own = ports("input", inputs, variables[:count], fewest)
        return own, ports("output", outputs, variables[count:], len(variables))

    def _rules(
        self, values: Mapping[str, Any], samples: Sequence[tuple[Sequence[Shape], Sequence[Shape]]]
    ) -> tuple[Rules | None, list[str]]:
        """The shape rules if all that was observed follows them, and notes of inputs of other ranks."""
        found, notes = self.found, []
        rules = rules_with_fields(found["rules"], values, found["changed"]) if found["rules"] else None
        asked: list[tuple[Any, ...]] = [(values, *one) for one in samples]
        for one, shapes in self.others:
            given = tuple(desc.shape for desc in one.inputs)
            if [*map(len, given)] != [*map(len, samples[0][0])][: len(given)]:
                ranks = ", ".join(str(len(shape)) for shape in given)
                notes.append(f"it also takes inputs of ranks {ranks}; the new plugin does not")
            elif shapes:
                asked.append(({**values, **one.fields}, given, tuple(shapes)))
        if rules is not None and not all(_holds(rules, *one) for one in asked):
            rules = None
        return rules, notes

    def _notes(self, left_out: Sequence[str], other_versions: Sequence[str]) -> Iterator[str]:
        """What the new plugin does not do, or what was not seen."""
        found = self.found
        yield from (found[name] for name in ("alone", "note") if found.get(name))
        if left_out:
            yield f"it also takes {', '.join(left_out)}; the new plugin does not"
        moved = {name for change, _ in found["changed"] for name in change}
        for name in self.case.fields if found["rules"] else ():
            if name not in moved:
                yield f"it takes no other values of its field {name}: whether shapes follow it was not seen"
        if not all(map(_linear, found["combinations"])):
            yield "it also takes tensors that are not linear; the new plugin does not"
        if other_versions:
            versions = ", ".join(map(repr, other_versions))
            yield f"the library has version {versions} of it, too, which is not migrated"

    def _names(self) -> Names:
        """The plugin's name where it is free, else with V3 behind it."""
        plain = re.sub(r"[^A-Za-z0-9]", "", self.case.plugin)
        name = plain[:1].upper() + plain[1:]
        taken = name in by_name() or onnx.defs.has(name)
        if not _VERSION.fullmatch(self.creator["version"] or ""):
            raise ValueError(
                f"its version is {self.creator['version']!r}; a package's are letters, digits and points"
            )
        try:
            return check_names(name + "V3" * taken, self.domain)
        except UsageError as error:
            raise ValueError(error.problems[0].what) from error

    def _fields(self) -> tuple[tuple[Field, ...], list[str]]:
        """The fields, and notes of what is known of them less well."""
        fields, notes = [], []
        for one in self.creator["fields"]:
            name, value = one["name"], self.case.fields.get(one["name"])
            kind, whole = _kind(name, one["type"], value)
            default = one["default"]
            if value is None and default is None:
                raise ValueError(f"no value of its field {name} is known; give one: --example {name}=1")
            listed = isinstance(value, tuple) if value is not None else one["length"] > 1
            size = len(value) if isinstance(value, tuple) else one["length"]
            if default is None and name in self.found["optional"]:
                notes.append(
                    f"it is created without its field {name}, too, with a value that it does not say"
                )
            if kind not in ("int32", "float32"):
                notes.append(f"its field {name} was {kind}, and is {'int32' if whole else 'float32'}")
            kinds = (Kind.INTS, Kind.INT) if whole else (Kind.FLOATS, Kind.FLOAT)
            field = Field(name, kinds[not listed], "field of the V2 plugin", size if listed else None)
            if default is not None:
                field = replace(field, default=_value(field, tuple(default) if listed else default[0]))
            fields.append(field)
        return tuple(fields), notes


def _kind(name: str, kind: str, value: Any) -> tuple[str, bool]:
    """The type of a field, and whether it is of whole numbers. Raises ValueError for others than a package's.

    value: a known one, by which the type is told where the creator only names the field.
    """
    if not _NAME.fullmatch(name or ""):
        raise ValueError(f"it has a field called {name!r}; a package's are letters, digits and underscores")
    if kind == "unknown" and value is not None:
        whole_values = all(isinstance(v, int) for v in np.ravel(np.array(value, object)))
        kind = "int32" if whole_values else "float32"
    whole = re.fullmatch(r"int(8|16|32|64)", kind) is not None
    if not (whole or re.fullmatch(r"float(16|32|64)", kind)):
        raise ValueError(f"its field {name} is of type {kind}; a package's are int32 and float32")
    return kind, whole


def _bounded(field: Field, minimum: Mapping[str, int], rules: Rules) -> Field:
    """The field with the smallest value that the plugin is created with; above 0 where a rule divides by it."""
    divisors = (
        part.parts[1] for dims in rules for dim in dims for part in _parts(dim) if part.operation == "//"
    )
    divides = any(part.parts[:1] == (field.name,) for one in divisors for part in _parts(one))
    return replace(field, minimum=1 if divides else minimum.get(field.name))


def _parts(formula: Formula) -> Iterator[Formula]:
    yield formula
    for part in formula.parts:
        if isinstance(part, Formula):
            yield from _parts(part)


def _value(field: Field, value: Any) -> Value:
    number = int if field.kind in (Kind.INT, Kind.INTS) else float
    return tuple(map(number, value)) if field.kind.is_list else number(value)


def _wider(ports: Sequence[Port], taken: Collection[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """Types of ports that their variables stand for, and that are not taken."""
    variables = [*dict.fromkeys(port.type for port in ports)]
    choices = product(*(TYPE_VARIABLES[variable] for variable in variables))
    meant = (dict(zip(variables, choice, strict=True)) for choice in choices)
    return tuple(types for one in meant if (types := tuple(one[port.type] for port in ports)) not in taken)


def _holds(
    rules: Rules, fields: Mapping[str, Any], inputs: Sequence[Shape], outputs: Sequence[Shape]
) -> bool:
    try:
        made = [tuple(value_of(dim, fields, tuple(inputs)) for dim in dims) for dims in rules]
    except (LookupError, ZeroDivisionError):  # of an input that is left out, and of a field that is 0
        return False
    return made == [*outputs]


def shape_lines(samples: Iterable[tuple[Sequence[Shape], Sequence[Shape]]]) -> list[str]:
    return [
        f"{', '.join(map(_shown, inputs))} -> {', '.join(map(_shown, outputs))}"
        for inputs, outputs in samples
    ]


def _linear(combination: Iterable[Sequence[str]]) -> bool:
    return all(layout == "linear" for _, layout in combination)


def _shown(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"
