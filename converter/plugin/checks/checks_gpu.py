"""Checks kernels by running them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from trtsmith.converter.plugin.checks.checks import CheckFailedError, CreatorUnderTest, NotTestableError
from trtsmith.converter.plugin.contract import GpuCase
from trtsmith.converter.plugin.host.contexts import (
    run_in_contexts,
    run_in_graph,
    run_in_threads,
    run_with_shapes,
)
from trtsmith.converter.plugin.host.enqueue import MemoryLayout, run_plugin
from trtsmith.converter.plugin.host.host import Plugin
from trtsmith.converter.plugin.host.host_library import PluginRefusedError
from trtsmith.converter.plugin.host.plugin_values import field_values
from trtsmith.converter.verify.compare import compare as compare_outputs
from trtsmith.converter.verify.tolerances import Tolerances
from trtsmith.importers.counted import counted

DIRECT = "kernel against its reference"
RESTORED = "kernel after a serialisation round trip"

FILL = 0x47
"""Ordinary numbers in every type: not zero, no NaN, not -1. A kernel that asks for any of these in memory that it has not
written finds it in 0xFF bytes only, if there."""
LARGEST = 1 << 22
"""Bytes of inputs and outputs above which a case is run in the first two checks only: the others would take minutes."""


KernelRun = Callable[[CreatorUnderTest, GpuCase, Plugin], list[np.ndarray]]


@dataclass(frozen=True)
class GpuCheck:
    """One check. about: what must hold. run: returns outputs to compare with the case's. applies: to such cases; None: to
    all.

    advice: as of a ContractCheck.
    """

    name: str
    about: str
    run: KernelRun
    applies: Callable[[GpuCase], bool] | None = None
    advice: str = ""


def gpu_check(
    name: str, applies: Callable[[GpuCase], bool], advice: str = ""
) -> Callable[[KernelRun], GpuCheck]:
    """Makes a GpuCheck of the decorated function, whose docstring says what must hold."""

    def made(run: KernelRun) -> GpuCheck:
        return GpuCheck(name, str(run.__doc__), run, applies, advice)

    return made


def _small(case: GpuCase) -> bool:
    return sum(array.nbytes for array in (*case.inputs, *case.expected)) <= LARGEST


def _has_empty(case: GpuCase) -> bool:
    return case.kind == "no elements"


def _twins(case: GpuCase) -> tuple[int, int] | None:
    """Two inputs that could lie at one address."""
    kinds = [(array.shape, array.dtype) for array in case.inputs]
    pairs = ((kinds.index(kind), i) for i, kind in enumerate(kinds) if case.inputs[i].size)
    return next(((first, i) for first, i in pairs if first != i), None)


def _direct(session: CreatorUnderTest, case: GpuCase, plugin: Plugin) -> list[np.ndarray]:
    return run_plugin(plugin, case.inputs, shape_values=case.shape_values)


def _restored(session: CreatorUnderTest, case: GpuCase, plugin: Plugin) -> list[np.ndarray]:
    with session.creator.deserialize(plugin.serialize()) as restored:
        return run_plugin(plugin, case.inputs, executor=restored, shape_values=case.shape_values)


def _laid_out(layout: MemoryLayout) -> KernelRun:
    def run(session: CreatorUnderTest, case: GpuCase, plugin: Plugin) -> list[np.ndarray]:
        return run_plugin(plugin, case.inputs, shape_values=case.shape_values, layout=layout)

    return run


def _alone(case: GpuCase, plugin: Plugin, inputs: Sequence[np.ndarray], what: str) -> GpuCase:
    """The case of other inputs, with the outputs that they have in a run of their own."""
    outputs = run_plugin(plugin, inputs, shape_values=case.shape_values)
    expected = tuple(output.astype(np.float64) for output in outputs)
    return replace(case, name=f"{case.name}, {what}", inputs=tuple(inputs), expected=expected)


def _require(found: list[np.ndarray], case: GpuCase, who: str) -> None:
    try:
        compare(found, case)
    except CheckFailedError as error:
        raise CheckFailedError(f"{who}: {error.what}", error.expected, "mend the kernel") from error


def halved(inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """The inputs with every floating value halved: other values, of which none leaves its range."""
    # bfloat16 is of no kind that numpy knows.
    return tuple(a if a.dtype.kind in "iub" else (a * a.dtype.type(0.5)).astype(a.dtype) for a in inputs)


def doubled(inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Twice the batch, in every input whose first dimension is that of the first input."""
    batch = inputs[0].shape[:1]
    return tuple(np.concatenate([a, a]) if batch and a.shape[:1] == batch else a for a in inputs)


@gpu_check("kernel in a CUDA graph", _small, "an application need not capture its engines")
def in_graph(session: CreatorUnderTest, case: GpuCase, plugin: Plugin) -> list[np.ndarray]:
    """Captured into a CUDA graph and replayed twice, with changed inputs: it neither allocates nor waits."""
    other = _alone(case, plugin, halved(case.inputs), "with inputs halved")
    found, changed = run_in_graph(plugin, [case.inputs, other.inputs], case.shape_values)
    _require(changed, other, "replayed with changed inputs")
    return found


def _second(case: GpuCase, plugin: Plugin) -> GpuCase:
    """Another case for the same plugin, as large or larger: with twice the batch, where the plugin takes that."""
    try:
        return _alone(case, plugin, doubled(case.inputs), "with twice the batch")
    except PluginRefusedError:
        return _alone(case, plugin, halved(case.inputs), "with inputs halved")


@gpu_check("kernels of two contexts in turns", _small)
def in_turns(session: CreatorUnderTest, case: GpuCase, plugin: Plugin) -> list[np.ndarray]:
    """Two contexts with other shapes, on two streams, enqueued in turns."""
    other = _second(case, plugin)
    others, found = run_in_contexts(plugin, [other.inputs, case.inputs], case.shape_values)
    _require(others, other, "in the other context")
    return found


@gpu_check("kernels of two contexts in two threads", _small)
def in_threads(session: CreatorUnderTest, case: GpuCase, plugin: Plugin) -> list[np.ndarray]:
    """Two contexts with other shapes, on two streams, in two threads."""
    other = _second(case, plugin)
    others, mine = run_in_threads(plugin, [other.inputs, case.inputs], case.shape_values)
    for found in others:
        _require(found, other, "in the other thread")
    for found in mine:
        _require(found, case, "in its thread")
    return mine[-1]


@gpu_check("kernel after other shapes", _small)
def reshaped(session: CreatorUnderTest, case: GpuCase, plugin: Plugin) -> list[np.ndarray]:
    """One context with a larger shape, this one and the larger again, in the workspace of the larger."""
    other = _second(case, plugin)
    first, found, again = run_with_shapes(
        plugin, [other.inputs, case.inputs, other.inputs], case.shape_values
    )
    _require(first, other, "with the first shapes")
    _require(again, other, "with the first shapes again")
    return found


@gpu_check("kernel with one address for equal inputs", lambda case: _small(case) and _twins(case) is not None)
def aliased(session: CreatorUnderTest, case: GpuCase, plugin: Plugin) -> list[np.ndarray]:
    """Two inputs that are equal lie at one address."""
    twins = _twins(case)
    assert twins is not None
    inputs = list(case.inputs)
    inputs[twins[1]] = inputs[twins[0]]
    apart = _alone(case, plugin, inputs, "with equal inputs")
    layout = MemoryLayout(shared_inputs=True)
    _require(
        run_plugin(plugin, inputs, shape_values=case.shape_values, layout=layout), apart, "at one address"
    )
    return _direct(session, case, plugin)


_EMPTY = "NVIDIA does not say where such tensors lie; those of an engine's own inputs have an address"

KERNEL_CHECKS = (
    GpuCheck(DIRECT, "Its outputs are those of the reference, and it writes nothing else.", _direct),
    GpuCheck(RESTORED, "So they are from a plugin that was restored from its serialisation.", _restored),
    GpuCheck(
        "kernel with null for tensors without elements",
        "Tensors without elements may lie at null.",
        _laid_out(MemoryLayout(empty="null")),
        _has_empty,
        _EMPTY,
    ),
    GpuCheck(
        "kernel with one address for tensors without elements",
        "Tensors without elements may lie at one address.",
        _laid_out(MemoryLayout(empty="same")),
        _has_empty,
        _EMPTY,
    ),
    in_graph,
    in_turns,
    in_threads,
    reshaped,
    GpuCheck(
        "kernel with other memory contents",
        "Outputs and workspace hold other bytes before: neither NaN nor zero nor -1.",
        _laid_out(MemoryLayout(fill=FILL)),
        _small,
    ),
    GpuCheck(
        "kernel on slices of allocations",
        "Tensors and workspace start 256 bytes into larger allocations, the alignment that TensorRT asks for.",
        _laid_out(MemoryLayout(offset=256)),
        _small,
    ),
    aliased,
)
GPU_CHECKS = tuple(check.name for check in KERNEL_CHECKS)


def checks_of(case: GpuCase) -> tuple[str, ...]:
    """Lists the checks that a case is for."""
    return tuple(check.name for check in KERNEL_CHECKS if check.applies is None or check.applies(case))


def kernel(session: CreatorUnderTest, case: GpuCase, name: str) -> str | None:
    """Runs the kernel in one of GPU_CHECKS, and compares it with the reference."""
    if not case.expected:
        raise NotTestableError("no reference outputs are known")
    (check,) = (check for check in KERNEL_CHECKS if check.name == name)
    with session.creator.create(field_values(case.fields, session.creator.fields)) as plugin:
        return compare(check.run(session, case, plugin), case)


def compare(found: list[np.ndarray], case: GpuCase) -> str:
    """Returns the largest error over tolerance. Raises CheckFailedError naming the output, its error and its worst element.

    The ratio of norms alone is judged: a tolerance of an operator's is that of its cases, against float64, and what rounding
    changes of their elements is not measured.
    """
    if len(found) != len(case.expected):
        raise CheckFailedError(f"the kernel has {counted(len(found), 'output')}", f"{len(case.expected)}")
    names = [f"output {i}" for i in range(len(found))]
    wanted, got = (
        {name: array.astype(np.float64) for name, array in zip(names, arrays, strict=True)}
        for arrays in (case.expected, found)
    )
    allowed = dict(zip(names, case.tolerance, strict=True))
    finite = {name: array[np.isfinite(array)] for name, array in wanted.items()}
    zeros = {name: allowed[name] for name in names if not finite[name].any()}
    notes = []
    for c in compare_outputs(wanted, got, Tolerances({}, zeros), allowed):
        if not c.agrees:
            what = f"{c.output}: {c.reason}"
            if c.worst:
                what += f"; its worst element {c.worst} is {c.actual}"
            expected = f"{c.expected} there (elements never written read as NaN)" if c.worst else f"{c.shape}"
            raise CheckFailedError(what, expected, "mend the kernel")
        if wanted[c.output].size:
            notes.append(f"{c.max if c.output in zeros else c.relative:.2g} of {allowed[c.output]:.2g}")
    return "relative error " + ", ".join(notes) if notes else "empty outputs"
