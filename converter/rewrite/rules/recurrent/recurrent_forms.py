"""Rewrites LSTM, GRU and RNN from forms that TensorRT refuses to forms that it takes.

- sequence_lens with float16 or bfloat16: its parser masks in float32, and the types clash; the layer runs in float32;
- GRU in bfloat16, for the same kind of reason;
- no hidden_size: it is read off the weights;
- two directions with other activations or factors: its parser wants them the same; a layer for each direction;
- names of activations in another case, which onnxruntime reads;
- layout = 1 (the batch first): TensorRT-RTX 1.6.1 ignores it and takes the batch for the sequence (seen on an H200), so
  that transposes go around a layer with the sequence first;
- a batch of one and hidden_size 2 to 6: engines of LSTM and GRU never end for sequences of three and more (seen with
  TensorRT-RTX 1.6.1 on an H200; 7 and more, RNN, two sequences and a GRU with linear_before_reset do end), so that a copy
  of the sequence goes through beside it.

An activation Affine and LSTM's input_forget have no form that TensorRT takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.recurrent.gate_activations import activations, attributes_of
from trtsmith.converter.rewrite.target import Fault

_SEQUENCE_LENS = 4
_STATES = (5, 6)
_TOLD = ("activations", "activation_alpha", "activation_beta")
_DEFAULTS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}

_HANGS = range(2, 7)
"""Of hidden_size, beside a batch of one."""

_ENDS = 2
"""Lengths of a sequence for which it ends."""

_BATCH_FIRST = (
    Fault("tensorrt_rtx", ("1.6.1",), "takes layout = 1 for layout = 0", "an engine run on an H200"),
    Fault(
        "tensorrt",
        ("10.1",),
        "takes layout = 1 for layout = 0",
        "the source of its ONNX parser, which reads no attribute layout",
    ),
)
_ALONE = Fault(
    "tensorrt_rtx",
    ("1.6.1",),
    "never ends with one sequence and hidden_size 2 to 6",
    "an engine run on an H200",
)


@node_rule("recurrent", "GRU", "LSTM", "RNN", partly=(*_BATCH_FIRST, _ALONE))
def recurrent_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites LSTM, GRU and RNN to forms that TensorRT takes."""
    done = _unknown_gates(node) or _retold(node)
    if done is not None:
        return done
    form, hidden = _Form.of(node), node.attributes.get("hidden_size")
    if hidden and form == _Form():
        return None
    weights = node.shape(2)
    hidden = hidden or (weights[2] if weights else None)
    if not hidden:
        return Refusal(
            f"{node.op_type} without hidden_size, and recurrent weights {node.input(2)!r} of unknown shape",
            "one of the two",
            "give the node its hidden_size",
        )
    w, dtype = Writer(node), node.dtype(0)
    inputs = [form.input(w, index) if name else w.x[index] for index, name in enumerate(node.inputs)]
    if form.narrow:
        # TensorRT-RTX 1.7.1 moves a Cast into the loop that it makes of the layer, and then fails there ("Mismatched
        # number of elements in reshape"). A minimum with infinity changes no number and stays where it is.
        inputs[0] = w.Min(inputs[0], float("inf"))
    given = {a.name: node.attributes[a.name] for a in node.proto.attribute} | {"hidden_size": hidden}
    given.pop("layout", None)
    used = [bool(name) and node.used(index) for index, name in enumerate(node.outputs)]
    results = list(w.write(node.op_type, *inputs, outputs=used, **given))
    for index in (index for index, is_used in enumerate(used) if is_used):
        results[index] = form.output(w, index, results[index], dtype)
    what = form.words(hidden_given=bool(node.attributes.get("hidden_size")))
    numerics = f"{node.op_type} of {dtype} is computed in float32 and rounded once" if form.narrow else ""
    return Replacement(w.finish(*results), f"{node.op_type} {what}", form.notes(node), numerics)


def _unknown_gates(node: NodeView) -> Refusal | None:
    if "affine" in (name.lower() for name in node.attributes.get("activations") or ()):
        return Refusal(
            f"{node.op_type} with the activation Affine",
            "Sigmoid, Tanh, Relu, HardSigmoid, Softsign, Softplus, Elu, LeakyRelu, ScaledTanh or ThresholdedRelu",
            "fold the factors into the weights, and export the model with another activation",
        )
    if node.op_type == "LSTM" and node.attributes.get("input_forget"):
        return Refusal(
            "input_forget = 1 (coupled input and forget gates)",
            "input_forget = 0",
            "export the recurrence as a Scan or Loop of plain operators",
        )
    return None


@dataclass(frozen=True)
class _Form:
    """How the inputs and outputs differ from those that TensorRT takes.

    narrow: in 16 bits. batch_first: layout = 1. alone: one sequence, which gets a copy beside it.
    """

    narrow: bool = False
    batch_first: bool = False
    alone: bool = False

    @staticmethod
    def of(node: NodeView) -> _Form:
        dtype = node.dtype(0)
        narrow = dtype in ("float16", "bfloat16") and bool(node.input(_SEQUENCE_LENS))
        narrow |= dtype == "bfloat16" and node.op_type == "GRU"
        batch_first = bool(node.attributes.get("layout", 0)) and any(map(node.has, _BATCH_FIRST))
        alone = node.has(_ALONE) and _hangs(node, node.attributes.get("hidden_size"), batch_first)
        return _Form(narrow, batch_first, alone)

    def input(self, w: Writer, index: int) -> Value:
        """The connected input of this index, as the new node takes it."""
        value = w.x[index]
        if self.narrow and index != _SEQUENCE_LENS:
            value = w.Cast(value, to="float32")
        if self.batch_first and index in (0, *_STATES):
            value = w.Transpose(value, perm=[1, 0, 2])
        if self.alone and index in (0, _SEQUENCE_LENS, *_STATES):
            value = w.Concat(value, value, axis=0 if index == _SEQUENCE_LENS else 1)
        return value

    def output(self, w: Writer, index: int, value: Value, dtype: str | None) -> Value:
        """The output of this index, as the old node had it."""
        if self.alone:  # the batch is the last axis but one
            value = w.Gather(value, [0], axis=2 if index == 0 else 1)
        if self.batch_first:  # [sequence, directions, batch, hidden] and [directions, batch, hidden]
            value = w.Transpose(value, perm=[2, 0, 1, 3] if index == 0 else [1, 0, 2])
        return w.Cast(value, to=dtype) if self.narrow else value

    def notes(self, node: NodeView) -> tuple[str, ...]:
        first = "the sequence is transposed to the front"
        return (
            *((node.because(_BATCH_FIRST, first),) if self.batch_first else ()),
            *((node.because([_ALONE], "a copy of it goes along"),) if self.alone else ()),
        )

    def words(self, *, hidden_given: bool) -> str:
        told = {
            "in float32": self.narrow,
            "with the sequence first": self.batch_first,
            "with a copy of its only sequence beside it": self.alone,
            "with the hidden_size of its weights": not hidden_given,
        }
        return ", ".join(text for text, holds in told.items() if holds)


def _retold(node: NodeView) -> Replacement | None:
    """The node with activation names spelled for TensorRT, split by direction if the activations differ."""
    names, direction = node.attributes.get("activations"), node.attributes.get("direction", "forward")
    found = activations(node, _DEFAULTS[node.op_type], 2 if direction == "bidirectional" else 1)
    if not names or found is None:
        return None
    given = {a.name: node.attributes[a.name] for a in node.proto.attribute if a.name not in _TOLD}
    used = [bool(name) and node.used(index) for index, name in enumerate(node.outputs)]
    w = Writer(node)
    if len(set(found)) == 1:
        told = attributes_of(chain(*found))
        if told["activations"] == names:
            return None
        results = w.write(node.op_type, *w.x, outputs=used, **given, **told)
        return Replacement(w.finish(*results), f"{node.op_type} with activations as ONNX writes them")
    first = 1 if node.attributes.get("layout", 0) else 0
    inputs = [
        [value] * 2
        if not name or index in (0, _SEQUENCE_LENS)
        else w.split(value, [1, 1], first if index in _STATES else 0)
        for index, (name, value) in enumerate(zip(node.inputs, w.x, strict=True))
    ]
    parts = [
        list(
            w.write(
                node.op_type,
                *(values[number] for values in inputs),
                outputs=used,
                **given | {"direction": way},
                **attributes_of(found[number]),
            )
        )
        for number, way in enumerate(("forward", "reverse"))
    ]
    joined = [
        w.Concat(*both, axis=first + (index == 0)) if used[index] else both[0]
        for index, both in enumerate(zip(*parts, strict=True))
    ]
    return Replacement(w.finish(*joined), f"{node.op_type} for each direction")


def _hangs(node: NodeView, hidden: int | None, batch_first: bool) -> bool:
    """Whether an engine would hang, as far as the shapes are known."""
    if node.op_type == "RNN" or node.attributes.get("linear_before_reset"):
        return False
    weights, x = node.shape(2), node.shape(0)
    hidden = hidden or (weights[2] if weights else None)
    if hidden not in _HANGS or x is None or len(x) != 3:
        return False
    length, batch = (x[1], x[0]) if batch_first else (x[0], x[1])
    return batch == 1 and not (isinstance(length, int) and length <= _ENDS)
