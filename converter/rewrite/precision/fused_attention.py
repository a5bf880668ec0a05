"""Finds attention: a Softmax between two products, which TensorRT fuses if all of it has the products' type.

The fused kernels compute the Softmax in float32 inside. Casts around a Softmax keep TensorRT from fusing them. Engines of
seven networks on an H200 were as accurate either way, and up to 13 % faster without.

Scores to which a mask or a bias is added are left out: of 49 to 2,048 keys, most engines were as fast with the sum and the
Softmax in float32, and all 10 to 25 % closer. And they are right, which in float16 they are not from 384 or 768 keys on
(rules/matrices/masked_softmax.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import starmap

import numpy as np

from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.operator_groups import MOVING, op_types
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.rewrite.precision.formats import Format
from trtsmith.converter.rewrite.precision.policy import HEAVY

Place = tuple[Scope, str]

_MOVES = MOVING - {"Gather"}

_AHEAD = frozenset({*_MOVES, *op_types("Clip Concat Div Dropout Max Min Mul Neg Tanh Where")})
"""Operators between the first product and the Softmax: scales, choices and caps."""

_BEHIND = frozenset({*_MOVES, *op_types("Cast Dropout IsNaN Not Where")})
"""Between the Softmax and the second product: a guard against NaN."""

_LONGEST = 24
"""Nodes that are looked at on one side of a Softmax; a mask of an encoder has ten."""


@dataclass
class Attention:
    """The attention of a network. softmax: nodes of Softmax between two products.

    masked: values of which a mask's lowest number is part. They leave the range of a small type without harm: it becomes the
    type's own lowest (Format.masked), whose exponential is zero as well.
    """

    softmax: set[Node] = field(default_factory=set)
    masked: set[Place] = field(default_factory=set)


def find_attention(order: Iterable[Node], fmt: Format, fits: Callable[[Scope, str], bool]) -> Attention:
    """Finds attention in all graphs. fits: whether a value without a mask is within the type's range."""
    found = Attention()
    for node in order:
        if node.op_type != "Softmax" or node.domain or not _last_axis(node) or not _weighs_values(node):
            continue
        ahead = [*_between(node)]
        read = [(one.scope, name) for one in (node, *ahead) for name in one.inputs if name]
        masked = _masked(ahead, fmt)
        open_ = (place for place in read if (place[0].holder(place[1]), place[1]) not in masked)
        if any(starmap(_is_product, read)) and all(starmap(fits, open_)):
            found.softmax.add(node)
            found.masked |= masked
    return found


def lowest_of_mask(values: np.ndarray, fmt: Format) -> bool:
    """Tells whether all numbers beyond the type's range are negative, as in a mask."""
    beyond = np.isfinite(values) & (np.abs(values) > fmt.largest)
    return bool(beyond.any() and (values[beyond] < 0).all())


def _last_axis(node: Node) -> bool:
    dims = node.scope.dims(node.inputs[0])
    opset = node.scope.whole.opset("")
    axis = next((int(a.i) for a in node.proto.attribute if a.name == "axis"), -1 if opset >= _LAST else 1)
    return dims is not None and axis in (-1, len(dims) - 1)


_LAST = 13
"""The opset from which Softmax is along one axis, by default the last."""


def _weighs_values(softmax: Node) -> bool:
    """Whether all that reads the result is a product, but for moves and a guard in between."""
    queue, seen, products = deque([softmax]), {softmax}, 0
    while queue:
        node = queue.popleft()
        for name in node.outputs:
            if name in node.scope.results:
                return False
            for reader in node.scope.whole.readers_of(name):
                if reader.domain or reader in seen:
                    continue
                if reader.op_type in HEAVY:
                    products += 1
                elif reader.op_type not in _BEHIND or len(seen) == _LONGEST:
                    return False
                else:
                    seen.add(reader)
                    queue.append(reader)
    return products > 0


def _between(softmax: Node) -> Iterator[Node]:
    """Nodes that make the scores of products and masks, the last first."""
    queue, seen = deque([softmax]), {softmax}
    while queue and len(seen) < _LONGEST:
        for name in queue.popleft().inputs:
            maker = softmax.scope.maker(name) if name else None
            if maker is None or maker in seen or maker.domain or maker.op_type not in _AHEAD:
                continue
            seen.add(maker)
            queue.append(maker)
            yield maker


def _is_product(scope: Scope, name: str) -> bool:
    maker = scope.maker(name)
    return maker is not None and not maker.domain and maker.op_type in ("MatMul", "Einsum", "Gemm")


def _masked(ahead: list[Node], fmt: Format) -> set[Place]:
    """Constants with a mask's lowest number, and what is made with them."""
    masked: set[Place] = set()
    for node in reversed(ahead):
        for name in filter(None, node.inputs):
            holder = node.scope.holder(name)
            values = node.scope.constant(name) if node.scope.is_constant(name) else None
            of_mask = values is not None and values.dtype == np.float32 and lowest_of_mask(values, fmt)
            if holder is not None and (of_mask or (holder, name) in masked):
                masked.update({(holder, name), *((node.scope, result) for result in node.outputs)})
    return masked
