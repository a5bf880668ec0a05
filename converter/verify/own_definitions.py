"""Says of which operators our own definition is the reference, as onnxruntime computes them on no CPU."""

from __future__ import annotations

from dataclasses import replace

from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.rewrite import defined_here
from trtsmith.converter.verify.verdict import Verdict


def with_own_definitions(model: Model, verdict: Verdict) -> Verdict:
    """The verdict on a comparison with the model's own outputs, with what it rests on."""
    if not verdict.comparisons:
        return verdict
    told = tuple(
        f"onnxruntime has no CPU kernel for {name}: the reference computes it by the definition that TensorRT gets, so that "
        "the definition itself is not compared; --expected FILE.npz compares with outputs of your own"
        for name in defined_here(model)
    )
    return replace(verdict, references=(*verdict.references, *told))
