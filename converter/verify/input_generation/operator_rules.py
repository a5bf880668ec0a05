"""Lists by operator the values that suit its operands."""

from __future__ import annotations

from collections.abc import Mapping

from trtsmith.converter.graph.operator_groups import op_types
from trtsmith.converter.verify.input_generation import indices, masks
from trtsmith.converter.verify.input_generation.flow_view import InputOperand
from trtsmith.converter.verify.input_generation.indices import Rule
from trtsmith.converter.verify.input_generation.meaning import InputValues, ValueKind
from trtsmith.converter.verify.input_generation.pictures import channel_axis
from trtsmith.importers.generation import Meaning as PortMeaning
from trtsmith.importers.registry import find_aliases

_PIXELS = 640.0
"""Width and height of an image of unknown size: what detectors are exported for."""


def meaning_of(operand: InputOperand) -> InputValues | None:
    """Returns the values that suit the node's operand, which a graph input reaches; None if any do."""
    rules = _RULES.get(operand.kind)
    if rules is not None:
        rule = rules.get(operand.position)
        return rule(operand) if rule is not None else None
    return _port(operand)


def _between(low: float, high: float, what: str) -> Rule:
    """Values from low to high where the node reads them. Another tensor may have been added: offsets to locations."""

    def rule(operand: InputOperand) -> InputValues | None:
        start, stop = operand.flow.before(low, high)
        return InputValues(ValueKind.RANGE, operand.reads(what), round(start, 6), round(stop, 6))

    return rule


def _alone(rule: Rule) -> Rule:
    """The rule, for an input that no other tensor was added to."""
    return lambda operand: rule(operand) if operand.flow.alone else None


_POSITIVE = _alone(_between(0.1, 2.0, "positive numbers"))
_INSIDE_ONE = _alone(_between(-0.9, 0.9, "numbers between -1 and 1"))
_SHARE = _alone(_between(0.0, 1.0, "numbers from 0 to 1"))


def _divisor(operand: InputOperand) -> InputValues | None:
    if not operand.flow.plain:
        return _alone(_between(0.5, 2.0, "a divisor"))(operand)
    if operand.is_float:
        return InputValues(ValueKind.APART_FROM_ZERO, operand.reads("a divisor"), 0.5, 2.0)
    return InputValues(ValueKind.RANGE, operand.reads("a divisor"), 1, 9)


def _base(operand: InputOperand) -> InputValues | None:
    """The base of a power: a fraction as exponent wants it positive."""
    exponent = operand.constant(1)
    if exponent is not None and bool((exponent.astype(float) % 1 == 0).all()):
        return None
    return _POSITIVE(operand)


def _clipped(operand: InputOperand) -> InputValues | None:
    """What is cut off at 0 and 1 is meant to be a share."""
    low, high = operand.constant(1), operand.constant(2)
    if low is None or high is None or low.size != 1 or high.size != 1:
        return None
    ends = float(low.reshape(-1)[0]), float(high.reshape(-1)[0])
    return _alone(_between(0.0, 1.0, "numbers from 0 to 1"))(operand) if 0 <= ends[0] < ends[1] <= 1 else None


def _boxes(operand: InputOperand) -> InputValues | None:
    if not operand.flow.plain:
        return None
    kind = ValueKind.CENTRES if operand.attribute("center_point_box", 0) else ValueKind.CORNERS
    return InputValues(kind, operand.reads("boxes"), 0.0, _PIXELS)


def _regions(operand: InputOperand) -> InputValues | None:
    """Boxes in pixels of the image that the feature map is made of."""
    if not operand.flow.plain:
        return None
    sizes = [size for axis in (2, 3) if (size := operand.size(0, axis)) is not None]
    scale = float(operand.attribute("spatial_scale", 1.0))
    high = min(sizes) / scale if len(sizes) == 2 and scale > 0 else _PIXELS
    return InputValues(ValueKind.CORNERS, operand.reads("boxes"), 0.0, high)


def _cut_outs(operand: InputOperand) -> InputValues | None:
    return InputValues(ValueKind.CORNERS, operand.reads("boxes"), 0.0, 1.0) if operand.flow.plain else None


def _pixels(operand: InputOperand) -> InputValues | None:
    """Images. A normalisation in the model tells 0 to 255 from 0 to 1, by its first factors and means.

    Without one a photograph is from 0 to 1; and of what may be no image nothing is known.
    """
    flow, shape = operand.flow, operand.known.shapes.get(operand.flow.source, ())
    if not flow.alone or len(shape) not in (3, 4) or not {1, 3, 4} & {shape[-1], shape[-3]}:
        return None
    kind = ValueKind.PIXELS if channel_axis(shape) is None else ValueKind.PICTURES
    because = operand.reads("an image whose normalisation is in the model")
    bytes_ = operand.known.dtypes.get(flow.source) == "uint8"
    if bytes_ or abs(flow.scale) <= 0.05 or abs(flow.shift / flow.scale) >= 20:
        return InputValues(kind, because, 0, 255)
    if not flow.plain:
        return InputValues(kind, because, 0, 1)
    return InputValues(kind, operand.reads("an image"), 0, 1) if kind is ValueKind.PICTURES else None


_PORTS: Mapping[PortMeaning, ValueKind] = {
    PortMeaning.WEIGHTS: ValueKind.WEIGHTS,
    PortMeaning.LEVEL_SIZES: ValueKind.LEVEL_SIZES,
    PortMeaning.LEVEL_STARTS: ValueKind.LEVEL_STARTS,
    PortMeaning.INVERTIBLE: ValueKind.INVERTIBLE,
}


def _port(operand: InputOperand) -> InputValues | None:
    """What the definition of a custom operator says of its port; aliases name their inputs as the ports."""
    for op, alias in find_aliases(*operand.kind):
        names = [name.rstrip("?") for name in alias.inputs]
        if operand.position >= len(names):
            continue
        port = next((p for p in op.inputs if p.name == names[operand.position]), None)
        if port is None or port.meaning is PortMeaning.ANY:
            return None
        if port.meaning is PortMeaning.SHARE:
            return _between(0.0, 1.0, port.meaning.value)(operand)
        if port.meaning is PortMeaning.BOXES:
            return _regions(operand)
        if not operand.flow.alone or operand.flow.shift:
            return None
        rows = operand.size(names.index("value"), 1) if "value" in names else None
        bounds = (rows,) if rows is not None else ()
        kind = _PORTS[port.meaning]
        if kind in (ValueKind.LEVEL_SIZES, ValueKind.LEVEL_STARTS) and not bounds:
            return None
        return InputValues(kind, operand.reads(port.meaning.value), bounds=bounds)
    return None


_IMAGE_READERS = op_types("AveragePool Conv ConvTranspose InstanceNormalization MaxPool Resize Upsample")

_RULES: dict[tuple[str, str], Mapping[int, Rule]] = {
    **{("", name): rules for name, rules in indices.RULES.items()},
    **{("com.microsoft", name): rules for name, rules in indices.CONTRIB_RULES.items()},
    **{("", name): rules for name, rules in masks.RULES.items()},
    **{("", name): {0: _pixels} for name in _IMAGE_READERS},
    **{("", name): {0: _POSITIVE} for name in ("Log", "Sqrt")},
    **{("", name): {0: _INSIDE_ONE} for name in ("Acos", "Asin", "Atanh")},
    ("", "Acosh"): {0: _alone(_between(1.1, 3.0, "numbers above 1"))},
    ("", "BatchNormalization"): {4: _POSITIVE},
    ("", "Bernoulli"): {0: _SHARE},
    ("", "Clip"): {0: _clipped},
    ("", "Div"): {1: _divisor},
    ("", "Dropout"): {1: _alone(_between(0.1, 0.5, "a ratio"))},
    ("", "GridSample"): {1: _between(-1.0, 1.0, "sampling positions")},
    ("", "Mod"): {1: _divisor},
    ("", "NonMaxSuppression"): {
        0: _boxes,
        1: _alone(_between(0.0, 1.0, "scores")),
        2: _alone(_between(10, 100, "a number of boxes")),
        3: _alone(_between(0.3, 0.7, "a threshold of overlap")),
        4: _alone(_between(0.05, 0.3, "a threshold of scores")),
    },
    ("", "Pow"): {0: _base},
    ("", "Reciprocal"): {0: _divisor},
    ("", "Resize"): {0: _pixels, 2: _alone(_between(0.5, 2.0, "scales"))},
    ("", "RoiAlign"): {1: _regions, 2: indices.of_table(0, 0)},
    ("com.microsoft", "CropAndResize"): {1: _cut_outs, 2: indices.of_table(0, 0)},
    ("com.microsoft", "Attention"): {3: masks.lengths_or_mask},
    ("com.microsoft", "MultiHeadAttention"): {4: masks.lengths_or_mask, 5: masks.added},
}
