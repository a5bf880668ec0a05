"""Says of which operators the reference is no independent one: our own definition, or a fused kernel of onnxruntime."""

from __future__ import annotations

from dataclasses import replace

from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort_kernels import quantised
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
    told += tuple(
        f"{name} is an operator that onnxruntime fuses quantised ones into: the reference has its roundings, as there is no "
        "run without the fusion; --expected FILE.npz compares with outputs of your own"
        for domain, name in sorted(quantised(model.proto))
        if domain == "com.microsoft" and "QuantizeLinear" not in name
    )
    return replace(verdict, references=(*verdict.references, *told))
