"""Rewords TensorRT's warnings, each once: its meaning, its node, and the remedy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from trtsmith.converter.engine.builder.explain import SAYS, one_line
from trtsmith.converter.engine.builder.repeats import kind_of_message


@dataclass(frozen=True)
class WarningRow:
    """A kind of warning.

    pattern:  a regular expression that occurs in it; its group `at` is what the warning is about, other groups are facts.
    sentence: what it means and what to do, with the facts; "" where it changes nothing for the user.
    place:    how `at` is shown.
    """

    pattern: str
    sentence: str = ""
    place: str = "node {at!r}"


# The first row that matches wins.
WARNINGS: tuple[WarningRow, ...] = (
    WarningRow(r"Make sure (input|output) .* has Int64 binding"),  # trtsmith binds by the engine's own types
    # Of sizes, "Unused Input" says the rest.
    WarningRow(r"\[RemoveDeadLayers\] Input Tensor .* is not being removed"),
    WarningRow(
        r"Unused Input: (?P<at>.+)", "no node reads it; the engine still asks for an array", "input {at!r}"
    ),
    WarningRow(
        r"Detected layernorm nodes in FP16(: (?P<at>[^,]+))?",
        "a layer normalization written in single operators computes in float16 and may overflow; keep it in float32 with "
        "--keep-fp32, or export the model with opset 17 or later, which has LayerNormalization",
    ),
    WarningRow("Running layernorm after self-attention with FP16 Reduce or Pow"),  # comes with the row above
    # Rewritten, a Loop's condition stays true, or what it collects is cut off where it ends.
    WarningRow("both a trip limit and a loop termination condition was set"),
    WarningRow(
        'ignores the "seed" field',
        "TensorRT ignores the attribute 'seed' of random operators: every run draws other numbers. For fixed numbers, "
        "make them an initializer or an input",
    ),
    WarningRow(
        "UINT8 zero_point only on DLA",
        "TensorRT quantizes to int8 where the model has uint8, which changes values above 127. Export the model with int8 "
        "zero points",
    ),
    WarningRow(r"Weight at index \d+: .* is out of range. Clamping to"),  # the next row, for each element
    WarningRow(
        r"weights outside the range of (?P<type>\w+) was clamped",
        "the model has weights outside the range of {type}: TensorRT clamps them. Export it with weights in that range",
    ),
    *(
        WarningRow(
            rf"(?P<count>\d+) weights are affected by this issue: Detected {pattern}",
            f"{{count}} weights {effect}; if results are off, keep the nodes that use them in float32 with --keep-fp32",
        )
        for pattern, effect in (
            (r"subnormal (?P<type>\w+) values", "are subnormal in {type} and lose digits"),
            (
                r"values less than smallest positive (?P<type>\w+)",
                "are smaller than any {type} number; TensorRT sets them to the smallest",
            ),
            (
                r"finite FP32 values which would overflow in (?P<type>\w+)",
                "are too large for {type}; TensorRT sets them to its largest number",
            ),
        )
    ),
    # The lines around those three.
    WarningRow(
        "issues when converting weights between types|please modify the weights or retrain|list of affected weights"
    ),
    WarningRow(
        "graphs generated with at least opset 7",
        "the model's opset is below 7, for which TensorRT guarantees nothing. Convert it with onnx.version_converter, or "
        "export it with opset 11 or later",
    ),
    WarningRow("Scatter was deprecated in Opset 11"),  # ScatterElements is the same operator
    WarningRow("Empty initializer .* was provided with non-empty data"),  # roi of each Resize of opset 11
    WarningRow("Using attribute allowzero with opset < 14"),  # trtsmith checks a Reshape itself
    WarningRow("already exists, the output tensors of this new instance will not be queryable"),
    WarningRow(
        r"Attribute (?P<field>\S+) not found in plugin node",
        "a plugin node lacks the attribute {field!r}; the plugin uses its default. Set the attribute where the model is "
        "exported if the default is wrong",
    ),
    WarningRow(
        r"IPluginV3 ignores some format combinations because combination limit of (?P<limit>\d+)",
        "a plugin accepts more than {limit} format combinations, and TensorRT tries no more; tie the types of its ports "
        "together in supportsFormatCombination",
    ),
    WarningRow(
        r"insufficient to use tactic|[Ss]kipping tactic .*due to insufficient memory|skipped. Scratch requested",
        "TensorRT skipped tactics that need more GPU memory than it had, so the engine may be slower; free GPU memory or "
        "raise --workspace, and convert again",
    ),
    WarningRow(
        r"Profile k(?P<point>MIN|OPT|MAX) values are not self-consistent",
        "the {point} shapes of the optimization profile contradict each other; give inputs that belong together the same "
        "batch and sizes in --shapes",
    ),
    WarningRow(
        "Q/DQ nodes will not be fused because INT8 is slower than FP16",
        "on this GPU int8 is slower than float16, so TensorRT computes quantized nodes in float16; convert the float model "
        "with --precision fp16",
    ),
    WarningRow(
        "CUDA lazy loading is not enabled",
        "CUDA loads all kernels at start, which costs time and GPU memory; set CUDA_MODULE_LOADING=LAZY",
    ),
    WarningRow(
        "Failed to deserialize timing cache|[Tt]iming cache header mismatch",
        "the timing cache comes from another TensorRT or GPU; TensorRT starts a new one",
    ),
    # Comes with the row above; TensorRT-RTX times no tactics.
    WarningRow("The timing cache will not be used"),
)


MOST_UNKNOWN = 50
"""Kinds of warnings without a row that are told; the log has all."""


class WarningList:
    """TensorRT's warnings, one sentence for each kind, with the first node and the number of the others."""

    def __init__(self) -> None:
        self._places: dict[str, list[str]] = {}
        self._unknown: dict[str, str] = {}  # kind: the first warning of it

    def add(self, warning: str) -> None:
        row, found = next(
            ((row, found) for row in WARNINGS if (found := re.search(row.pattern, warning))), (None, None)
        )
        if row is None or found is None:
            kind = kind_of_message(warning)
            if len(self._unknown) >= MOST_UNKNOWN and kind not in self._unknown:
                return
            first = self._unknown.setdefault(kind, warning)
            self._places.setdefault(f"{SAYS}{one_line(first, 400)}", []).append("")
        elif row.sentence:
            at = found.groupdict().get("at")
            places = self._places.setdefault(row.sentence.format(**found.groupdict()), [])
            places.append(row.place.format(at=at) if at else "")

    def sentences(self) -> tuple[str, ...]:
        return tuple(_with_places(sentence, places) for sentence, places in self._places.items())


def _with_places(sentence: str, places: Sequence[str]) -> str:
    named = list(dict.fromkeys(filter(None, places)))
    if named:
        return f"{named[0]}{f' and {len(named) - 1} more' if named[1:] else ''}: {sentence}"
    return f"{sentence} ({len(places)} times)" if places[1:] else sentence
