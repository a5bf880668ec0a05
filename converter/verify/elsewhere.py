"""Holds expected outputs and tolerances for comparing an engine on a machine without trtsmith."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.verify.allowance import Allowance
from trtsmith.converter.verify.baseline import Arithmetic, Baseline
from trtsmith.converter.verify.findings import Finding
from trtsmith.converter.verify.meaning.compared_outputs import RoundedRuns, compared, element_bounds
from trtsmith.converter.verify.rounding import GRIDS
from trtsmith.converter.verify.tolerances import Tolerances
from trtsmith.converter.verify.verdict_words import sentence
from trtsmith.importers.opdef import Arrays


def allowance_elsewhere(
    baseline: Baseline, arithmetic: Arithmetic, tolerances: Tolerances | None
) -> tuple[Arrays, Allowance]:
    """Makes the expected outputs and tolerances for an engine on another machine, for a single set of inputs.

    Rounding is drawn several ways at once: there nobody can draw it again where an output disagrees. ConversionError:
    onnxruntime does not run the original, and no outputs are expected instead.
    """
    (wanted,) = baseline.wanted
    plain = None
    with suppress(ConversionError):  # outputs of the user's may be all that there is
        (plain,) = baseline.plain
    drawn = (baseline.rounded(arithmetic, grid) for grid in (1.0, *GRIDS)) if plain is not None else ()
    ways = [made[0] for made in drawn if made is not None]
    runs = RoundedRuns(arithmetic.precision, plain, ways, baseline.limits)
    measured, found = compared(baseline.model, wanted, wanted, runs, tolerances)
    unheld = baseline.unheld if baseline.expected is None else {}
    left = {**measured.left, **baseline.limits.excluded, **baseline.original.random, **unheld}
    return {one.output: wanted[one.output] for one in found}, replace(measured, left=left)


@dataclass(frozen=True)
class ComparisonElsewhere:
    """Inputs for the engine, its expected outputs, and the tolerance of each.

    inputs:   in the engine's types. expected: in the model's,
        bfloat16 as float32, so that numpy alone reads them.
    limits:   by output {"rtol", "atol"} as the user gave them; {"relative"}, the ratio of norms; or {"differing"}, the
        share of whole numbers. An output that a selection makes has its "kind", too: its rows may come in another order.
    bounds:   what each element of an output with "relative" may be off by.
    left_out: outputs of which agreement would prove nothing, and why.
    """

    inputs: Arrays
    expected: Arrays
    limits: Mapping[str, Mapping[str, Any]]
    bounds: Arrays
    left_out: Mapping[str, Finding]

    def within(
        self, measured: Allowance, tolerances: Tolerances | None, selections: Mapping[str, Any]
    ) -> ComparisonElsewhere:
        """Fills in the judge's limits, except for slices and the order of rows."""
        limits, bounds = {}, {}
        left_out = measured.unproven(tolerances) | measured.excluded(tolerances) | dict(self.left_out)
        for name, value in self.expected.items():
            given = None if tolerances is None else tolerances.of(name)
            kind = {"kind": selections[name].kind} if name in selections else {}
            if value.dtype.kind in "iub":
                limits[name] = kind | {"differing": measured.allowed.get(name, 0.0)}
            elif given is not None:
                limits[name] = kind | {"rtol": given[0], "atol": given[1]}
            elif name in measured.allowed:
                limits[name] = kind | {"relative": measured.allowed[name]}
                if name in measured.noise and value.ndim and value.size:  # of a number, the norm says all
                    bounds[name] = element_bounds(value, measured.noise[name]).astype(np.float32)
        plain = {n: v.astype(np.float32) if v.dtype.kind == "V" else v for n, v in self.expected.items()}
        return replace(self, expected=plain, limits=limits, bounds=bounds, left_out=left_out)

    def entries(self, outputs: Collection[str], accepted: Collection[str]) -> list[dict[str, Any]]:
        """Lists each output's entry for the manifest. accepted: those that need not be compared."""
        return [
            {"name": name, **self.limits.get(name, {})}
            | (
                {"left_out": sentence(self.left_out[name]), "accepted": name in accepted}
                if name in self.left_out
                else {}
            )
            for name in outputs
        ]
