"""Advises a user where no node is wrong and the outputs disagree by what their precision rounds."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from trtsmith.converter.locate.reduced_precision import ReducedNodes
from trtsmith.converter.rewrite.precision.formats import FORMATS
from trtsmith.converter.verify.compare import Comparison

MOST_NAMED = 8
"""Nodes whose flags are written out; of more, the first and the last are named."""

ABOVE = 1.1
"""A tolerance is proposed that is so many times the difference that was seen: its two digits are above it then."""


def advice(
    precision: str, outputs: Sequence[Comparison], reduction: ReducedNodes | None, wide: Sequence[str] | None
) -> tuple[str, ...]:
    """One sentence for each thing that can be done.

    outputs: those that disagree. reduction: None where the model's types are its own. wide: nodes that make the outputs
    agree when they are in float32; () where not even all of them do, None where that is not known.
    """
    return (*_types(precision, reduction, wide), *_tolerances(outputs))


def together_advice(saved: int, shared: Sequence[str], single: bool) -> tuple[str, ...]:
    """Where nodes are computed wrongly together.

    saved: nodes of the model that was saved because an engine of it is wrong; 0: none was. shared: initial values that are
    kept once, or may be. single: whether one node stands out, which a plugin could compute.
    """
    what = (
        f"the folder, whose model of {saved} nodes shows it"
        if saved
        else "the model, its inputs and this report"
    )
    told = [f"report it to NVIDIA with {what}: the error is in TensorRT"]
    if shared:
        told.append(
            f"try another initial value: where {', '.join(shared[:MOST_NAMED])} depends on an input of the model (0 * X, "
            "added to it), it is no constant that TensorRT may keep once for several nodes"
        )
    if single:
        told.append(
            "compute such a node in a plugin of your own (`trtsmith new` writes one): TensorRT computes it apart from others"
        )
    return tuple(told)


def _types(precision: str, reduction: ReducedNodes | None, wide: Sequence[str] | None) -> Iterator[str]:
    if precision not in FORMATS:
        return
    fmt = FORMATS[precision]
    if reduction is None:
        yield f"--precision fp32 computes in float32 what the model has in {fmt.name}"
        return
    if wide is not None:
        yield _kept(reduction, wide)
    other = next(one for one in FORMATS.values() if one is not fmt)
    times = 2 ** abs(fmt.digits - other.digits)
    how = "finer" if other.digits > fmt.digits else "coarser"
    where = "no value is" if other.largest < fmt.largest else "values are"
    narrow = min(fmt.largest, other.largest)
    yield f"--precision {other.flag} where {where} beyond {narrow:g}: it rounds {times} times {how}"


def _kept(reduction: ReducedNodes, wide: Sequence[str]) -> str:
    """What --keep-fp32 can do."""
    if not wide:
        return (
            "--keep-fp32 does not help: with all of these nodes in float32 the outputs disagree, too; "
            "the tolerance is narrower than float32 is here"
        )
    of = f"{len(wide)} of {len(reduction.nodes)} nodes kept in float32 the outputs agree"
    if len(wide) <= MOST_NAMED:
        flags = " ".join(f"--keep-fp32 {shlex.quote(name)}" for name in wide)
        return f"add {flags} to the conversion: with {of}"
    kinds = dict(reduction.nodes)
    first, last = (f"{name!r} ({kinds[name]})" for name in (wide[0], wide[-1]))
    return f"--keep-fp32 NAME|OP: with {of}, those from {first} to {last}; --json has their names"


def _tolerances(outputs: Sequence[Comparison]) -> Iterator[str]:
    wider = [f"--atol {shlex.quote(f'{c.output}:{ABOVE * c.max:.1e}')}" for c in outputs if _measured(c)]
    if wider:
        yield f"{' '.join(wider)} would allow what was seen, if that is near enough for you"


def _measured(c: Comparison) -> bool:
    """Whether the output has a difference that --atol can allow: neither whole numbers nor what is not finite."""
    return c.max > 0 and "int" not in c.dtype and c.dtype != "bool"
