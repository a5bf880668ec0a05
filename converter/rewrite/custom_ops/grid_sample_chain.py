"""Finds chains of GridSample, Concat, Mul and ReduceSum that look like multi-scale deformable attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_graphsurgeon as gs

from trtsmith.converter.rewrite.custom_ops.layout import UnprovedError
from trtsmith.converter.rewrite.custom_ops.surgery import domain_of
from trtsmith.converter.rewrite.custom_ops.traces import MovementStep, climb, producer


@dataclass(frozen=True)
class Chain:
    """The operators that compute, and the movements between them (each last one first).

    samples, stacking: the GridSample of each level, and the steps from it to `concat` (None for a single level).
    weighing:  steps from there to `mul`, whose other input is `weights`.
    summing:   steps from `mul` to `reduce`.
    """

    samples: tuple[gs.Node, ...]
    stacking: tuple[tuple[MovementStep, ...], ...]
    concat: gs.Node | None
    weighing: tuple[MovementStep, ...]
    mul: gs.Node
    weights: gs.Tensor
    summing: tuple[MovementStep, ...]
    reduce: gs.Node

    def nodes(self) -> list[gs.Node]:
        """The chain's nodes, from the sum up."""
        weighing = [step.node for step in self.weighing]
        stacking = [step.node for steps in self.stacking for step in steps]
        concat = [self.concat] if self.concat is not None else []
        summing = [step.node for step in self.summing]
        return [self.reduce, *summing, self.mul, *weighing, *concat, *stacking, *self.samples]


def find_chain(reduce: gs.Node) -> Chain | None:
    """The chain that ends in a ReduceSum; None if there is none. UnprovedError if something else is stacked with it."""
    summing = climb(reduce.inputs[0])
    mul = producer(_top(reduce.inputs[0], summing))
    if mul is None or mul.op != "Mul" or domain_of(mul):
        return None
    for sampled, weights in (mul.inputs, list(reversed(mul.inputs))):
        weighing = climb(sampled)
        stacked = producer(_top(sampled, weighing))
        if stacked is None or stacked.op not in ("Concat", "GridSample") or domain_of(stacked):
            continue
        concat = stacked if stacked.op == "Concat" else None
        ends = list(stacked.inputs) if concat is not None else [stacked.outputs[0]]
        stacking = tuple(climb(tensor) for tensor in ends)
        tops = [producer(_top(tensor, steps)) for tensor, steps in zip(ends, stacking, strict=True)]
        samples = tuple(
            node for node in tops if node is not None and node.op == "GridSample" and not domain_of(node)
        )
        if not samples:
            continue
        if len(samples) != len(tops):
            other = next(
                t for t, node in zip(ends, tops, strict=True) if node is None or node.op != "GridSample"
            )
            raise UnprovedError(
                f"input {other.name!r} is not a sampled level", "one GridSample for each input", concat
            )
        return Chain(samples, stacking, concat, weighing, mul, weights, summing, reduce)
    return None


def _top(tensor: gs.Tensor, steps: Sequence[MovementStep]) -> gs.Tensor:
    return steps[-1].source if steps else tensor
