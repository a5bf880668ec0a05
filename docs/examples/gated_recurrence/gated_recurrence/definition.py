"""Defines GatedRecurrence: the one place that says what the operator is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from trtsmith.importers.opdef import (
    Alias,
    Arrays,
    Attr,
    Case,
    Expansion,
    Field,
    Fields,
    Kind,
    OpDef,
    Port,
    Shapes,
    Work,
)


def _shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    return {"output": tuple(shapes["x"])}


def _check(_fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    faults = []
    x = shapes.get("x", (None,) * 3)
    for name, axes in (("gate", (0, 1, 2)), ("initial", (0, 2))):
        for axis, found in zip(axes, shapes.get(name, ()), strict=False):
            if found is not None and x[axis] is not None and found != x[axis]:
                faults.append(
                    f"{name} {tuple(shapes[name])} does not fit x, of which dimension {axis} is {x[axis]}"
                )
    return faults


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """One step after the other."""
    x, gate = inputs["x"].astype(np.float64), inputs["gate"].astype(np.float64)
    kept = 1 / (1 + np.exp(-gate))
    state = inputs["initial"].astype(np.float64) if "initial" in inputs else np.zeros_like(x[:, 0])
    output = np.zeros_like(x)
    steps = range(x.shape[1])
    for step in reversed(steps) if fields["reverse"] else steps:
        state = kept[:, step] * state + (1 - kept[:, step]) * x[:, step]
        output[:, step] = state
    return {"output": output}


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """One step after the other, too: PyTorch has no scan that it could export."""
    import torch

    x, gate = inputs["x"], inputs["gate"]
    initial = inputs.get("initial")
    state = initial if initial is not None else torch.zeros_like(x[:, 0])
    if fields["reverse"]:
        x, gate = x.flip(1), gate.flip(1)
    kept, added = torch.sigmoid(gate), torch.sigmoid(-gate) * x
    states = []
    for step in range(x.shape[1]):
        state = kept[:, step] * state + added[:, step]
        states.append(state)
    output = torch.stack(states, 1) if states else x.clone()
    return (output.flip(1) if fields["reverse"] else output,)


def _expand(expansion: Expansion) -> str:
    """All pairs of steps at once: what is kept of a value is the exponential of a difference of sums of logarithms."""
    reverse = int(expansion.fields["reverse"])
    later, earlier = ("steps_down", "steps_across") if not reverse else ("steps_across", "steps_down")
    text = f"""
    time = Constant <value = int64 {{2}}> ()
    one = Constant <value = int64[1] {{1}}> ()
    from_zero = Constant <value = int64 {{0}}> ()
    by_one = Constant <value = int64 {{1}}> ()
    never = Constant <value = float {{-1e30}}> ()
    closed = Neg (gate)
    let_in = Sigmoid (closed)
    added = Mul (let_in, x)
    softplus = Softplus (closed)
    softplus_of_channels = Transpose <perm = [0, 2, 1]> (softplus)
    logarithms = Neg (softplus_of_channels)
    sums = CumSum <exclusive = 0, reverse = {reverse}> (logarithms, time)
    sizes = Shape (sums)
    column = Concat <axis = 0> (sizes, one)
    sums_down = Reshape (sums, column)
    sums_across = Transpose <perm = [0, 1, 3, 2]> (sums_down)
    differences = Sub (sums_down, sums_across)
    count = Gather <axis = 0> (sizes, time)
    steps = Range (from_zero, count, by_one)
    sizes_of_steps = Shape (steps)
    column_of_steps = Concat <axis = 0> (sizes_of_steps, one)
    steps_down = Reshape (steps, column_of_steps)
    steps_across = Transpose <perm = [1, 0]> (steps_down)
    hidden = Less ({later}, {earlier})
    masked = Where (hidden, never, differences)
    kept = Exp (masked)
    added_of_channels = Transpose <perm = [0, 2, 1]> (added)
    added_down = Reshape (added_of_channels, column)
    states_down = MatMul (kept, added_down)
    states = Reshape (states_down, sizes)
    """
    if "initial" in expansion.present:
        text += """
    sizes_of_initial = Shape (initial)
    column_of_initial = Concat <axis = 0> (sizes_of_initial, one)
    initial_down = Reshape (initial, column_of_initial)
    kept_of_initial = Exp (sums)
    left_of_initial = Mul (kept_of_initial, initial_down)
    all_states = Add (states, left_of_initial)
    output = Transpose <perm = [0, 2, 1]> (all_states)
    """
        return text
    return text + "output = Transpose <perm = [0, 2, 1]> (states)"


def _inputs(
    sequences: int, steps: int, channels: int, *, initial: bool = False
) -> Callable[[np.random.Generator], dict[str, np.ndarray]]:
    """A case's inputs, from a seeded generator, in float64: tests cast them to every type."""

    def make(generator: np.random.Generator) -> dict[str, np.ndarray]:
        size = (sequences, steps, channels)
        made = {"x": generator.normal(size=size), "gate": generator.normal(1.0, 2.0, size=size)}
        return made | ({"initial": generator.normal(size=(sequences, channels))} if initial else {})

    return make


def _work(_fields: Fields, shapes: Shapes) -> Work:
    """A sigmoid counted as four operations, and three of the recurrence."""
    sequences, steps, channels = shapes["x"]
    return Work(flops=7 * sequences * steps * channels)


FORWARD, BACKWARD = {"reverse": 0}, {"reverse": 1}

CASES = (
    Case("small", FORWARD, _inputs(2, 5, 16)),
    Case("backward", BACKWARD, _inputs(2, 7, 16)),
    Case("with_a_state", FORWARD, _inputs(3, 6, 32, initial=True)),
    Case("backward_with_a_state", BACKWARD, _inputs(1, 9, 8, initial=True)),
    Case("one_of_all", FORWARD, _inputs(1, 1, 1)),
    Case("odd_channels", FORWARD, _inputs(2, 33, 37, initial=True)),
    Case("several_blocks", BACKWARD, _inputs(2, 150, 70)),
    Case("no_steps", FORWARD, _inputs(2, 0, 4, initial=True)),
    Case("no_sequences", BACKWARD, _inputs(0, 3, 4)),
    Case("large", FORWARD, _inputs(8, 2048, 1024, initial=True), large=True),
    Case("long_and_odd", BACKWARD, _inputs(3, 5001, 131), large=True),
)

BENCHMARKS = (
    Case("minGRU, 2 sequences of 256 steps", FORWARD, _inputs(2, 256, 256)),
    Case("minGRU, 4 sequences of 512 steps", FORWARD, _inputs(4, 512, 256)),
    Case("minGRU, 8 sequences of 2048 steps", FORWARD, _inputs(8, 2048, 1024)),
)

GATED_RECURRENCE = OpDef(
    name="GatedRecurrence",
    doc=(
        "The recurrence of minGRU (Feng et al., arXiv 2410.01201) and QRNN: state = f * state + (1 - f) * x with "
        "f = sigmoid(gate), one step after the other. `reverse` = 1 begins with the last step."
    ),
    inputs=(
        Port("x", "T", 3, "[N, T, C]"),
        Port("gate", "T", 3, "[N, T, C]"),
        Port(
            "initial", "T", 2, "[N, C] the state before the first step; 0 where it is left out", optional=True
        ),
    ),
    outputs=(Port("output", "T", 3, "[N, T, C] the state after every step"),),
    fields=(Field("reverse", Kind.INT, "1: time runs backwards", default=0, allowed=(0, 1)),),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=_expand,
    aliases=(
        Alias(
            op_type="GatedRecurrence",
            domains=("example",),
            inputs=("x", "gate", "initial?"),
            attributes=(Attr("reverse", Kind.INT, 0),),
            source="models of example",
        ),
    ),
    cases=CASES,
    benchmarks=BENCHMARKS,
    work=_work,
    # ||out - reference|| / ||reference||: what rounding the output costs, as the kernel keeps its state in float32.
    tolerance={"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3},
)
