"""Compares outputs of operators' cases with the references, and counts them by class of cases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpucheck.plugin_trials import Arrays, Trial
from trtsmith.converter.plugin.checks.checks import CheckFailedError
from trtsmith.converter.plugin.checks.checks_gpu import compare
from trtsmith.importers.opdef import OpDef


class TrialComparison:
    """Compares outputs with references, and sums up."""

    def __init__(self, op: OpDef, types: Mapping[str, str]) -> None:
        self._op = op
        self._types = " ".join(types.values())

    def report(self, *routes: tuple[str, Iterator[tuple[Trial, Any]]]) -> dict[str, Any]:
        rows, failures = [], []
        for route, runs in routes:
            kinds: defaultdict[str, list[str]] = defaultdict(list)
            for trial, outputs in runs:
                fault = self.fault(trial, outputs)
                kinds[trial.case.kind].append(fault)
                if fault:
                    failures.append(f"{self._op.name}, {self._types}, {route}, {trial.name}: {fault}")
            head = {"op": self._op.name, "types": self._types, "route": route}
            for kind, faults in kinds.items():
                rows.append({**head, "kind": kind, "cases": len(faults), "passed": faults.count("")})
        return {"rows": rows, "failures": failures}

    def fault(self, trial: Trial, outputs: Arrays | str) -> str:
        """What is wrong with the outputs; "" if nothing is."""
        if isinstance(outputs, str):
            return outputs
        case = trial.case
        made = zip(self._op.outputs, case.expected, case.tolerance, strict=True)
        kept = [(port.name, wanted, allowed) for port, wanted, allowed in made if not port.size]
        names, expected, tolerance = zip(*kept, strict=True)
        try:
            compare([outputs[name] for name in names], replace(case, expected=expected, tolerance=tolerance))
        except CheckFailedError as failure:
            return f"{failure.what}; expected {failure.expected}"
        return ""
