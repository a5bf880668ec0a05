"""Checks a plugin under an optimisation profile: unknown dimensions, both of its ends, and shapes that change.

Only the batch differs between the ends, since nearly every operator takes it in any size; what comes of the outputs is
the plugin's own shape rule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from trtsmith.converter.plugin.checks.checks import (
    CheckFailedError,
    ContractCheck,
    CreatorUnderTest,
    NotTestableError,
)
from trtsmith.converter.plugin.contract import ContractCase
from trtsmith.converter.plugin.host import abi
from trtsmith.converter.plugin.host.host import Plugin, PluginError
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
    """The case with another batch: of every input whose first dimension is that of the first one."""
    old = case.inputs[0].shape[:1]
    inputs = tuple(
        replace(desc, shape=(batch, *desc.shape[1:])) if old and desc.shape[:1] == old else desc
        for desc in case.inputs
    )
    shapes = plugin.concrete_shapes([desc.shape for desc in inputs], case.shape_values)
    outputs = tuple(replace(desc, shape=shape) for desc, shape in zip(case.outputs, shapes, strict=True))
    return _ProfilePoint(batch, inputs, outputs)


def profile(low: Descs, typical: Descs, high: Descs) -> Descs:
    """The tensors of a profile as TensorRT describes them: -1 for every dimension whose ends differ."""
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
    except PluginError as error:
        if error.status is not abi.Status.REFUSED:
            raise
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
                with plugin.clone() as fixed:
                    if not _configure(fixed, point.inputs, point.outputs, what, may_refuse=True):
                        continue
                    needed = fixed.workspace_size(point.inputs, point.outputs)
                if needed > size:
                    raise CheckFailedError(
                        f"for {what} the workspace is {size} bytes, and for a batch of {point.batch} alone {needed}",
                        "a size that is enough for every shape between min and max",
                        "compute it from max, and let it never shrink as shapes grow",
                    )
    return None


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
                except PluginError as error:
                    if error.status is not abi.Status.REFUSED:
                        raise
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
