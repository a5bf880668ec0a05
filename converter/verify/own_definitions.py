"""Says of which operators one definition is on both sides, as onnxruntime computes them on no CPU."""

from __future__ import annotations

from dataclasses import replace

from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.rewrite import defined_here
from trtsmith.converter.verify.verdict import Verdict


def with_own_definitions(model: Model, verdict: Verdict) -> Verdict:
    """The verdict on a comparison with the model's own outputs, with what it rests on."""
    names = defined_here(model)
    if not verdict.comparisons or not names:
        return verdict
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    told = (
        f"onnxruntime has no {', '.join(names[:_MOST])}{more}: both sides rest on the same definition of it; "
        f"--reference {names[0].rpartition(':')[2]}=MODULE:FUNCTION or --expected FILE.npz compares with your framework's"
    )
    return replace(verdict, reason=f"{verdict.reason}; {told}")


_MOST = 3
"""Operators that the line names."""
