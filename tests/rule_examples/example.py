"""The form of a rule's examples: models that the rule takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Example:
    """A model that a rule takes. Its inputs are generated: non-zero, seeded.

    text:     the model in ONNX text; symbolic dimensions are allowed of inputs in `feeds` only.
    feeds:    values for inputs that must not be random, by name.
    scale:    factor of generated floats: large scores make a Softmax one-hot, which hides what is added to them.
    rtol:     |rewritten - original| <= rtol * |original| + atol.
    reference: whether onnx's reference implementation is the oracle, where onnxruntime lacks the operator.
    expected: the oracle where nothing that is installed runs the node: gives all outputs for all inputs, by name.
    builds:   whether TensorRT builds the rewritten model by now; False needs a sentence in `why`.
    """

    name: str
    text: str
    feeds: Arrays | None = None
    scale: float = 1.0
    rtol: float = 1e-5
    atol: float = 1e-6
    reference: bool = False
    builds: bool = True
    why: str = ""
    expected: Callable[[Arrays], Arrays] | None = None
