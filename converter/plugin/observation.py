"""Asks a plugin in a child process the questions of its host: outputs, shapes, formats, workspace, and its copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trtsmith.converter.plugin.checks.checks import CreatorUnderTest
from trtsmith.converter.plugin.checks.checks_io import MOST_COMBINATIONS, accepted_formats
from trtsmith.converter.plugin.contract import ContractCase
from trtsmith.converter.plugin.host.enqueue import described
from trtsmith.converter.plugin.host.host import Plugin
from trtsmith.converter.plugin.host.host_library import PluginError
from trtsmith.converter.plugin.host.plugin_values import Shape, TensorDesc, Value

OBSERVE = "observe"
OBSERVE_ALONE = "observe alone"
VARY = "vary"

_STEPS: Mapping[type, tuple[int | float, ...]] = {int: (1, 2, 3, -1), float: (0.75, -0.25)}
"""By how much fields of a type are changed."""

_LARGER: tuple[Callable[[int], int], ...] = (lambda size: size, lambda size: size + 3, lambda size: 2 * size)
"""What the sizes of the case become in the samples. Equal sizes stay equal, as a plugin may demand."""


_WITHOUT_BATCH = {"V2": "IPluginV2", "V2_EXT": "IPluginV2Ext", "V2_IOEXT": "IPluginV2IOExt"}
"""Interfaces older than IPluginV2DynamicExt, by abi.Family."""


def observe(session: CreatorUnderTest, case: ContractCase, samples: int = len(_LARGER)) -> dict[str, Any]:
    """Returns the plugin's answers, or {"problem"}. samples: 1 asks for no other sizes than the case's.

    outputs: their number. types: of the outputs. samples: [shapes of inputs, of outputs].
    rules: for each output its dimensions as expressions of the inputs', None where it takes no unknown ones.
    combinations: types and formats that it takes, of inputs and outputs; complete: whether those are all.
    workspace: bytes for each sample.
    """
    try:
        with session.create(case) as plugin:
            old = _WITHOUT_BATCH.get(plugin.info.family.name)
            if old is not None:
                return {"problem": f"it is an {old} plugin, whose shapes have no batch"}
            found = _answers(plugin, case, samples)
            (_, shapes), *_ = found["samples"]
            whole = replace(case, outputs=tuple(map(TensorDesc, found["types"], shapes)))
            _compare_copies(session, plugin, whole, found, samples)
            formats = accepted_formats(plugin, whole)
    except PluginError as error:
        return {"problem": error.problems[0].what}
    except ValueError as error:
        return {"problem": str(error)}
    return found | {"combinations": formats, "complete": len(formats) < MOST_COMBINATIONS}


def vary(session: CreatorUnderTest, case: ContractCase) -> dict[str, Any]:
    """Returns the effects of other values of fields. They may end the process: a plugin need not accept every one.

    changed: [{field: value}, rules], as observe() has them. optional: fields without which it can be created.
    minimum: 0 or 1 for integer fields with which it can be created from there on only.
    """
    whole = {name: value for name, value in case.fields.items() if _integers(value)}
    least = {name: _least(session, case, name, value) for name, value in whole.items()}
    return {
        "changed": [[change, rules] for change, rules in _changes(session, case)],
        "minimum": {name: number for name, number in least.items() if number is not None},
        "optional": [name for name in case.fields if _taken(session, case, {name: None})],
    }


def _answers(plugin: Plugin, case: ContractCase, count: int) -> dict[str, Any]:
    info = plugin.info
    types = plugin.output_types([desc.dtype for desc in case.inputs])
    samples, workspace = [], []
    for larger in _LARGER[:count]:
        inputs = tuple(replace(one, shape=tuple(map(larger, one.shape))) for one in case.inputs)
        try:
            rules = plugin.output_shapes([one.shape for one in inputs])
        except PluginError:
            if larger is _LARGER[0]:
                raise
            continue  # the plugin refuses these sizes
        outputs = described(types, rules)
        samples.append([[desc.shape for desc in inputs], [desc.shape for desc in outputs]])
        workspace.append(_workspace(plugin, inputs, outputs))
    return {
        "outputs": info.output_count,
        "types": list(types),
        "samples": samples,
        "rules": _rules(plugin, [desc.shape for desc in case.inputs]),
        "workspace": workspace,
    }


def _workspace(plugin: Plugin, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc]) -> int:
    with plugin.clone() as configured:
        configured.configure(inputs, outputs)
        return configured.workspace_size(inputs, outputs)


def _rules(plugin: Plugin, shapes: Sequence[Shape]) -> list[list[str]] | None:
    masks = [(1 << len(shape)) - 1 for shape in shapes]
    try:
        return [[dim.text for dim in rule] for rule in plugin.output_shapes(shapes, masks)]
    except PluginError:
        return None


def _compare_copies(
    session: CreatorUnderTest, plugin: Plugin, case: ContractCase, found: dict[str, Any], samples: int
) -> None:
    """ValueError where a clone, or the plugin restored from what was serialised, answers otherwise."""
    with plugin.clone() as clone:
        _held_to(clone, "its clone", case, found, samples)
        clone.configure(case.inputs, case.outputs)  # TensorRT serialises no other
        configured = _answers(clone, case, samples)
        restored = session.creator.deserialize(clone.serialize())
        _held_to(restored, "the plugin restored from its serialised form", case, configured, samples)
        restored.close()


def _held_to(copy: Plugin, what: str, case: ContractCase, found: dict[str, Any], samples: int) -> None:
    if copy.info.has_build and _answers(copy, case, samples) != found:
        raise ValueError(f"{what} answers otherwise than the plugin itself")


def _changes(
    session: CreatorUnderTest, case: ContractCase
) -> Iterator[tuple[dict[str, Value], list[list[str]]]]:
    """Other values of one number at a time, then of all integers that take one; each with the rules that it gives."""
    together: dict[int | float, dict[str, Any]] = {more: {} for more in (1, 2, 3)}
    for name, value in case.fields.items():
        elements = [*enumerate(value)] if isinstance(value, tuple) else [(None, value)]
        for index, element in elements:
            for more in _STEPS.get(type(element), ()):
                change = {name: _raised(value, index, more)}
                rules = _changed(session, case, change)
                if rules is not None:
                    if more in together:
                        together[more][name] = _raised(together[more].get(name, value), index, more)
                    yield change, rules
    for change in together.values():
        rules = _changed(session, case, change)
        if rules is not None:
            yield change, rules


def _raised(value: Any, index: int | None, more: float) -> Any:
    if not isinstance(value, tuple):
        return value + more
    return tuple(v + more * (index == i) for i, v in enumerate(value))


def _integers(value: Value) -> bool:
    return isinstance(value, int) or (isinstance(value, tuple) and all(isinstance(v, int) for v in value))


def _changed(
    session: CreatorUnderTest, case: ContractCase, change: dict[str, Value]
) -> list[list[str]] | None:
    """The rules with other values of fields. None where it cannot be created with them."""
    try:
        with session.create(replace(case, fields={**case.fields, **change})) as plugin:
            return _rules(plugin, [desc.shape for desc in case.inputs])
    except (PluginError, ValueError):
        return None


def _least(session: CreatorUnderTest, case: ContractCase, name: str, value: Any) -> int | None:
    """1 where it is created with the least element a 1, and not a 0; 0 where with a 0, and not a -1."""
    taken = []
    for number in (1, 0, -1):
        other = tuple(number for _ in value) if isinstance(value, tuple) else number
        taken.append(_taken(session, case, {name: other}))
    return 1 if taken[:2] == [True, False] else 0 if taken[1:] == [True, False] else None


def _taken(session: CreatorUnderTest, case: ContractCase, change: dict[str, Any]) -> bool:
    """Whether it can be created with other values of fields; None leaves one out."""
    fields = {name: value for name, value in {**case.fields, **change}.items() if value is not None}
    try:
        session.create(replace(case, fields=fields)).close()
    except PluginError:
        return False
    return True
