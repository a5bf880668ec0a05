"""Defines the results of the search for a faulty node, as plain data."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from trtsmith.converter.base.printable import one_line
from trtsmith.converter.verify.compare import Comparison

AGREE = "agree"
REWRITE = "rewrite"
NODE = "node"
FUSION = "fusion"
ROUNDING = "rounding"
UNEXPLAINED = "unexplained"
ENGINE = "engine"

SENTENCES = {
    AGREE: "every value agrees",
    REWRITE: "the rewrite of this node is wrong: in onnxruntime, too, the rewritten graph gives other numbers here",
    NODE: "this node is wrong by itself: from the very inputs that it had, onnxruntime computes something else",
    FUSION: "no node is wrong by itself: TensorRT computes these nodes right alone and wrongly together",
    ROUNDING: "no node is wrong by itself, none is further off than its own rounding explains: "
    "the precision itself makes the difference",
    UNEXPLAINED: "no node is found wrong, and the outputs are further off than the precision explains",
    ENGINE: "an engine built now from this model is right: this engine was built from another, or in another way",
}
"""What each verdict means."""

EMULATED = {
    AGREE: "the outputs agree with the original's when values are rounded to the precision; no engine was run",
    ROUNDING: "the outputs disagree with the original's when values are rounded to the precision; no engine was run",
}
"""The same of a search without an engine."""


@dataclass(frozen=True)
class TensorReport:
    """A value in the executor's run. low, high: its range; None without finite numbers.

    error: ||value - reference|| / ||reference||, None for an input from the user or where it cannot be told.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    low: float | None
    high: float | None
    error: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class NodeReport:
    """A node of the graph that TensorRT gets.

    original: the node of the original model that it stands for, in words; "" where it is that node itself.
    behind:   nodes between it and its inputs whose values could not be looked at.
    alone:    whether it is wrong in an engine of its own, too; None where that was not tried.
    """

    name: str
    op_type: str
    original: str
    inputs: tuple[TensorReport, ...]
    outputs: tuple[TensorReport, ...]
    attributes: dict[str, Any]
    behind: tuple[str, ...] = ()
    alone: bool | None = None


@dataclass(frozen=True)
class SharedTensor:
    """A tensor that other nodes read, and that a node may overwrite in place, since an output has its type and sizes.

    node:  the node. times: how many of its inputs it is. readers: the other nodes that read it.
    equal: other constants of the same numbers, of which TensorRT may keep one, with the nodes that read them.
    fill:  the number that all its elements are, where it is a constant of one number.
    """

    name: str
    node: str
    times: int
    readers: tuple[str, ...]
    equal: dict[str, tuple[str, ...]]
    fill: float | None


@dataclass(frozen=True)
class Growth:
    """A node in which an error grew: relative errors of its worst input and output."""

    name: str
    op_type: str
    before: float
    after: float


@dataclass(frozen=True)
class Located:
    """The result of a search: its status, one of SENTENCES, and the evidence.

    against:  what was compared with onnxruntime.
    nodes:    for "node" and "rewrite" the culprits, the first in order first. For "fusion" the nodes at which the error
              comes up first in an engine with values as outputs, with their tensors; where it is gone with such outputs,
              the first and the last of the nodes that it takes, without tensors.
    shared:   for "fusion": tensors which those nodes may update in place and others read, too.
    values:   every value that was compared, in order, with its error.
    skipped:  values that could not be compared, with the reason.
    folder:   the minimal model that was saved.
    kernel:   what the plugin's kernel did with the same inputs, run without TensorRT.
    precision, outputs, growth, wide: for "rounding" and "unexplained". The arithmetic, one of verify.rounding.PRECISIONS;
              the outputs that disagree ("fusion" has them, too); nodes in which errors grow; nodes that make the outputs
              agree when in float32.
    advice:   what to do, one sentence each.
    emulated: whether the graph was run in its types in onnxruntime, and no engine.
    """

    status: str
    against: str
    inputs: str
    nodes: tuple[NodeReport, ...] = ()
    growth: tuple[Growth, ...] = ()
    values: tuple[TensorReport, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    folder: str = ""
    kernel: str = ""
    precision: str = ""
    outputs: tuple[Comparison, ...] = ()
    wide: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    shared: tuple[SharedTensor, ...] = ()
    emulated: bool = False

    def __repr__(self) -> str:
        nodes = ", ".join(f"{node.name} ({node.op_type})" for node in self.nodes)
        return f"<Located: {one_line('; '.join(filter(None, (self.sentence, nodes, *self.advice))))}>"

    @property
    def sentence(self) -> str:
        """What the status means."""
        return (EMULATED if self.emulated else {}).get(self.status, SENTENCES[self.status])

    @property
    def is_range(self) -> bool:
        """Whether `nodes` are the ends of a range."""
        return self.status == FUSION and not any(node.outputs for node in self.nodes)

    def to_json(self) -> dict[str, Any]:
        """As JSON; infinity and NaN become null."""
        document: dict[str, Any] = _finite({"sentence": self.sentence, **asdict(self)})
        return document


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
