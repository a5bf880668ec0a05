"""Lists operators without an independent reference: computed by trtsmith's definition, or by a fused onnxruntime kernel."""

from __future__ import annotations

from dataclasses import replace

from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort_kernels import quantised
from trtsmith.converter.rewrite.rewrite import defined_here
from trtsmith.converter.verify.verdict import Verdict


def with_own_definitions(model: Model, verdict: Verdict) -> Verdict:
    """The verdict on a comparison with the model's own outputs, with what it rests on."""
    names = defined_here(model)
    told = []
    if names:
        more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
        one = names[0].rpartition(":")[2]
        told.append(
            f"onnxruntime has no {', '.join(names[:_MOST])}{more}: both sides rest on the same definition of it; "
            f"--reference {one}=MODULE:FUNCTION or --expected FILE.npz compares with your framework's"
        )
    fused = sorted(n for d, n in quantised(model.proto) if d == "com.microsoft" and "QuantizeLinear" not in n)
    if fused:
        told.append(
            f"onnxruntime fuses quantised operators into {', '.join(fused)}: the reference has its roundings, as there is "
            "no run without the fusion; --expected FILE.npz compares with your framework's"
        )
    if not verdict.comparisons or not told:
        return verdict
    return replace(verdict, reason="; ".join((verdict.reason, *told)))


_MOST = 3
"""Operators that the line names."""
