"""Checks a plugin under an optimization profile: unknown dimensions, both ends, and changing shapes.

What differs between the ends is the batch, since nearly every operator takes it in any size; for the workspace it is every
dimension that the plugin takes in another size. What comes of the outputs is the plugin's own shape rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from trtsmith.converter.plugin.checks.checks import (
    CheckFailedError,
    ContractCheck,
    CreatorUnderTest,
    NotTestableError,
    with_batch,
)
from trtsmith.converter.plugin.contract import ContractCase
from trtsmith.converter.plugin.host import abi
from trtsmith.converter.plugin.host.host import Plugin
from trtsmith.converter.plugin.host.host_library import PluginError, PluginRefusedError
from trtsmith.converter.plugin.host.plugin_values import Shape, TensorDesc

Descs = tuple[TensorDesc, ...]
GROWTH = 8
"""How many times the case's batch the largest of a profile is."""


@dataclass(frozen=True)
class _ProfilePoint:
    """Inputs and outputs with one batch."""

    batch: int
    inputs: Descs
    outputs: Descs


def at_batch(plugin: Plugin, case: ContractCase, batch: int) -> _ProfilePoint:
    """Returns the case with another batch, in every input whose first dimension is that of the first one."""
    inputs = with_batch(case.inputs, case, lambda _: batch)
    shapes = plugin.concrete_shapes([desc.shape for desc in inputs], case.shape_values)
    outputs = tuple(replace(desc, shape=shape) for desc, shape in zip(case.outputs, shapes, strict=True))
    return _ProfilePoint(batch, inputs, outputs)


def profile(low: Descs, typical: Descs, high: Descs) -> Descs:
    """Describes the tensors of a profile as TensorRT does: -1 for every dimension whose ends differ."""
    return tuple(
        replace(
            desc,
            shape=tuple(-1 if a != b else b for a, b in zip(least.shape, most.shape, strict=True)),
            minimum=least.shape,
            optimum=desc.shape,
            maximum=most.shape,
        )
        for least, desc, most in zip(low, typical, high, strict=True)
    )


def _all_unknown(descs: Descs) -> Descs:
    def unknown(shape: Shape) -> Shape:
        return tuple(-1 for _ in shape)

    return tuple(
        replace(d, shape=unknown(d.shape), minimum=d.shape, optimum=d.shape, maximum=d.shape) for d in descs
    )


def _case(session: CreatorUnderTest, case: ContractCase | None, plugin: Plugin) -> ContractCase:
    if case is None:
        raise NotTestableError("no case is known: its inputs are not known")
    if plugin.implicit_batch:
        raise NotTestableError("its interface takes constant shapes only")
    if not case.inputs or not case.inputs[0].shape:
        raise NotTestableError("its first input has no dimension that could vary")
    return case


class _BatchProfile(NamedTuple):
    """A profile of batches. inputs, outputs: as a configuration for it has them. what: in a message."""

    points: tuple[_ProfilePoint, _ProfilePoint, _ProfilePoint]
    inputs: Descs
    outputs: Descs
    what: str


def _profile(plugin: Plugin, case: ContractCase, least: int) -> _BatchProfile:
    batch = max(case.inputs[0].shape[0], 1)
    low, typical, high = (at_batch(plugin, case, n) for n in (least, batch, batch * GROWTH))
    return _BatchProfile(
        (low, typical, high),
        profile(low.inputs, typical.inputs, high.inputs),
        profile(low.outputs, typical.outputs, high.outputs),
        f"a profile from a batch of {least} to {high.batch}",
    )


def _configure(plugin: Plugin, inputs: Descs, outputs: Descs, what: str, *, may_refuse: bool = False) -> bool:
    try:
        plugin.configure(inputs, outputs)
    except PluginRefusedError as error:
        if may_refuse:
            return False
        raise CheckFailedError(
            f"with {what} {error.message}",
            "the plugin to be configured: what varies is -1 in desc.dims, with its ends in min and max",
            "use min, opt and max of DynamicPluginTensorDesc, and the shapes of onShapeChange and enqueue",
        ) from error
    return True


def configured_for_profile(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """Dimensions that are not known are -1 in a configuration, and a profile may start at 0."""
    with session.create(case) as plugin:
        case = _case(session, case, plugin)
        _configure(plugin, _all_unknown(case.inputs), _all_unknown(case.outputs), "every dimension unknown")
        refused = []
        for least in (1, 0):
            _, inputs, outputs, what = _profile(plugin, case, least)
            if not _configure(plugin, inputs, outputs, what, may_refuse=not least):
                refused.append(what)
    return f"refuses {refused[0]}" if refused else None


def _workspace(plugin: Plugin, inputs: Descs, outputs: Descs, most: _ProfilePoint) -> int:
    # V2's question has no room for a profile: TensorRT asks it with the largest shapes.
    if plugin.info.family is abi.Family.V3:
        return plugin.workspace_size(inputs, outputs)
    return plugin.workspace_size(most.inputs, most.outputs)


def workspace_for_profile(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """The workspace is asked for once, for a whole profile, and has to do for every shape in it."""
    with session.create(case) as plugin:
        case = _case(session, case, plugin)
        for least in (1, 0):
            points, inputs, outputs, what = _profile(plugin, case, least)
            if not _configure(plugin, inputs, outputs, what, may_refuse=not least):
                continue
            size = _workspace(plugin, inputs, outputs, points[-1])
            for point in points:
                _needs_no_more(plugin, point, size, what, f"a batch of {point.batch}")
        for what, low, high in _one_dimension_varied(plugin, case):
            if not (_takes(plugin, low) and _takes(plugin, high)):
                continue
            inputs = profile(low.inputs, low.inputs, high.inputs)
            outputs = profile(low.outputs, low.outputs, high.outputs)
            if _configure(plugin, inputs, outputs, what, may_refuse=True):
                size = _workspace(plugin, inputs, outputs, high)
                _needs_no_more(plugin, low, size, f"a profile of {what}", "the smallest")
    return None


def _takes(plugin: Plugin, point: _ProfilePoint) -> bool:
    """Whether a context takes these shapes: not all sizes go together."""
    with plugin.clone() as fixed:
        try:
            fixed.configure(point.inputs, point.outputs)
            fixed.initialize()
            with fixed.attach() as context:
                context.on_shape_change(point.inputs, point.outputs)
            fixed.terminate()
        except PluginRefusedError:
            return False
    return True


def _needs_no_more(plugin: Plugin, point: _ProfilePoint, size: int, profiled: str, which: str) -> None:
    """Raises CheckFailedError where shapes of a profile need more workspace than it was given. Refused shapes do not."""
    with plugin.clone() as fixed:
        if not _configure(fixed, point.inputs, point.outputs, profiled, may_refuse=True):
            return
        needed = fixed.workspace_size(point.inputs, point.outputs)
    if needed > size:
        raise CheckFailedError(
            f"for {profiled} the workspace is {size} bytes, and for {which} alone {needed}",
            "a size that is enough for every shape between min and max",
            "compute it from max, and let it never shrink as shapes grow",
        )


def _one_dimension_varied(
    plugin: Plugin, case: ContractCase
) -> Iterator[tuple[str, _ProfilePoint, _ProfilePoint]]:
    """Pairs of the case's shapes with others that have one dimension larger, or 1 where it is more; the smaller first.

    Of sizes that occur more than once all are varied together as well: they may be the same dimension.
    """
    batch = case.inputs[0].shape[0]
    own = _ProfilePoint(batch, case.inputs, case.outputs)
    places = [(i, axis) for i, desc in enumerate(case.inputs) for axis in range(len(desc.shape))]
    together: dict[int, list[tuple[int, int]]] = {}
    for i, axis in places:
        together.setdefault(case.inputs[i].shape[axis], []).append((i, axis))
    groups = [[place] for place in places] + [group for group in together.values() if len(group) > 1]
    for group in groups:
        i, axis = group[0]
        size = case.inputs[i].shape[axis]
        for other in (1, size * GROWTH, size * GROWTH**2):
            if other == size:
                continue
            inputs = tuple(
                replace(desc, shape=tuple(other if (i, a) in group else n for a, n in enumerate(desc.shape)))
                for i, desc in enumerate(case.inputs)
            )
            try:
                shapes = plugin.concrete_shapes([desc.shape for desc in inputs], case.shape_values)
            except PluginError:  # sizes that do not go together: not to be judged
                continue
            outputs = tuple(replace(d, shape=shape) for d, shape in zip(case.outputs, shapes, strict=True))
            varied = _ProfilePoint(batch, inputs, outputs)
            low, high = (varied, own) if other < size else (own, varied)
            where = ", ".join(f"input {i}" for i, _ in group)
            yield f"{min(other, size)} to {max(other, size)} in dimension {axis} of {where}", low, high


def shapes_change(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """One context is given both ends of its profile, in turns."""
    with session.create(case) as plugin:
        case = _case(session, case, plugin)
        (low, typical, high), inputs, outputs, what = _profile(plugin, case, 1)
        none = at_batch(plugin, case, 0)
        _configure(plugin, inputs, outputs, what)
        plugin.initialize()
        refused = False
        with plugin.attach() as context:
            for point in (high, low, typical, none, high, low):
                try:
                    context.on_shape_change(point.inputs, point.outputs)
                except PluginRefusedError as error:
                    if point.batch == 0:
                        refused = True
                        continue
                    raise CheckFailedError(
                        f"with a batch of {point.batch}, after others, {error.message}",
                        f"every batch of the profile, from 1 to {high.batch}, in any order",
                        "keep nothing of an earlier shape",
                    ) from error
        plugin.terminate()
    return "refuses a batch of 0" if refused else None


PROFILE_CHECKS = (
    ContractCheck("configuration for a profile", configured_for_profile, "case"),
    ContractCheck("workspace for a profile", workspace_for_profile, "case"),
    ContractCheck("shapes that change", shapes_change, "case"),
)
