"""Checks that the outputs of timed engines agree with onnxruntime's, within the tolerance of their precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from trtsmith.converter.model.errors import ConversionError
from trtsmith.converter.model.model import Model
from trtsmith.converter.verify.engine import Outputs, judge_outputs, onnxruntime_outputs
from trtsmith.converter.verify.sets import InputSet
from trtsmith.converter.verify.verdict import NOT_COMPARABLE, Verdict

Arrays = Mapping[str, np.ndarray]

PRECISION = "tf32"
"""In which TensorRT computes float32 networks, as `trtsmith verify` takes it."""

ONE = (InputSet("", {}),)


@dataclass(frozen=True)
class ExpectedOutputs:
    """What outputs for one set of inputs may be.

    model: None where nothing is compared. plain: its outputs in onnxruntime on the CPU; None where it does not run it.
    narrow: those with values rounded to PRECISION; None where that cannot be run.
    """

    model: Model | None = None
    plain: Outputs | None = None
    narrow: Outputs | None = None

    def verdict(self, actual: Arrays, reference: Arrays | None = None) -> Verdict:
        """The verdict on outputs in the model's types, against onnxruntime's or those of another run."""
        if self.model is None or (reference is None and self.plain is None):
            return Verdict(NOT_COMPARABLE, "onnxruntime does not run the model", True, "")
        expected = self.plain if reference is None else [reference]
        return judge_outputs(self.model, ONE, "", expected, self.plain, self.narrow, [actual], PRECISION)


def judge_of(model: Model, feeds: Arrays, progress: Callable[[str], None]) -> ExpectedOutputs:
    """Runs the model in onnxruntime, as it is and with its values rounded to TF32. feeds: of all of its inputs."""
    try:
        sets = (InputSet("", dict(feeds)),)
        return ExpectedOutputs(model, *onnxruntime_outputs(model, sets, PRECISION, progress))
    except ConversionError:
        return ExpectedOutputs(model)
