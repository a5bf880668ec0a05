"""Judges whether the outputs of what was timed agree with onnxruntime's, as TensorRT's precision allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from trtsmith.converter.model.errors import ConversionError
from trtsmith.converter.model.model import Model
from trtsmith.converter.verify.allowance import allowance
from trtsmith.converter.verify.compare import compare
from trtsmith.converter.verify.constant_outputs import constant_outputs
from trtsmith.converter.verify.engine import onnxruntime_outputs
from trtsmith.converter.verify.noise import Noise
from trtsmith.converter.verify.randomness import random_outputs
from trtsmith.converter.verify.sets import InputSet
from trtsmith.converter.verify.verdict import Verdict, judge

Arrays = Mapping[str, np.ndarray]

PRECISION = "tf32"
"""In which TensorRT computes float32 networks, as `trtsmith verify` takes it."""


@dataclass(frozen=True)
class ExpectedOutputs:
    """What outputs for one set of inputs may be.

    expected: the original's outputs in onnxruntime on the CPU; None where it does not run it.
    allowed:  ratio of norms by output (trtsmith.converter.verify.allowance); where there is none, TOLERANCE.
    noise:    what rounding does to each element of an output (trtsmith.converter.verify.noise).
    excluded: outputs that cannot be compared; by name, why. doubtful: those of which agreement proves nothing.
    constant: outputs that are the same for all inputs.
    """

    expected: Arrays | None = None
    allowed: Mapping[str, float] = field(default_factory=dict)
    noise: Mapping[str, Noise] = field(default_factory=dict)
    excluded: Mapping[str, str] = field(default_factory=dict)
    doubtful: Mapping[str, str] = field(default_factory=dict)
    constant: frozenset[str] = frozenset()

    def verdict(self, reference: Arrays, actual: Arrays) -> Verdict:
        """Compares outputs, which are in the model's types."""
        wanted = {name: array for name, array in reference.items() if name not in self.excluded}
        comparisons = compare(wanted, actual, allowed=self.allowed, noise=self.noise)
        return judge(
            comparisons,
            "",
            engine_run=True,
            excluded=self.excluded,
            doubtful=self.doubtful,
            constant=self.constant,
        )


def judge_of(model: Model, feeds: Arrays, progress: Callable[[str], None]) -> ExpectedOutputs:
    """Runs the model in onnxruntime, as it is and with its values rounded to TF32. feeds: of all of its inputs."""
    random = dict(random_outputs(model))
    try:
        plain, narrow = onnxruntime_outputs(model, (InputSet("", dict(feeds)),), PRECISION, progress)
    except ConversionError:
        return ExpectedOutputs(excluded=random)
    measured = allowance(plain[0], narrow[0] if narrow is not None else None, PRECISION, model.proto)
    return ExpectedOutputs(
        plain[0],
        measured.allowed,
        measured.noise,
        {**measured.excluded(None), **random},
        measured.unproven(None),
        constant_outputs(model),
    )
