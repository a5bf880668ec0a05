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
                fault = self._fault(trial, outputs)
                kinds[trial.case.kind].append(fault)
                if fault:
                    failures.append(f"{self._op.name}, {self._types}, {route}, {trial.name}: {fault}")
            head = {"op": self._op.name, "types": self._types, "route": route}
            for kind, faults in kinds.items():
                rows.append({**head, "kind": kind, "cases": len(faults), "passed": faults.count("")})
        return {"rows": rows, "failures": failures}

    def _fault(self, trial: Trial, outputs: Arrays | str) -> str:
        """What is wrong with the outputs; "" if nothing is."""
        if isinstance(outputs, str):
            return outputs
        ports = [port for port in self._op.outputs if not port.size]
        wanted = dict(zip((port.name for port in self._op.outputs), trial.case.expected, strict=True))
        tolerances = dict(zip(wanted, trial.case.tolerance, strict=True))
        expected = tuple(wanted[port.name] for port in ports)
        allowed = tuple(tolerances[port.name] for port in ports)
        try:
            compare(
                [outputs[port.name] for port in ports],
                replace(trial.case, expected=expected, tolerance=allowed),
            )
        except CheckFailedError as failure:
            return f"{failure.what}; expected {failure.expected}"
        return ""
