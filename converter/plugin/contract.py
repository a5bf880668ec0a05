"""Defines the inputs and results of plugin tests, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec
import numpy as np

from trtsmith.converter.plugin.host.plugin_values import Shape, TensorDesc, Value
from trtsmith.importers.problem import Problem


@dataclass(frozen=True)
class ContractCase:
    """One way to create a plugin, with inputs and the outputs by its definition.

    plugin:          name of the plugin that the case is for.
    name:            name of the case, for messages.
    fields:          every field with its value; plain values take the types that the creator lists.
    inputs, outputs: as configured; shapes with the batch in front and without unknown dimensions.
    accepted:        every combination of element types (inputs, then outputs) that the plugin takes in linear format,
                     and no other; None: not tested.
    optional_fields: fields that may be left out.
    variable_fields: fields whose number of elements is free.
    shape_values:    values of shape tensor inputs.
    """

    plugin: str
    name: str
    fields: Mapping[str, Value]
    inputs: tuple[TensorDesc, ...]
    outputs: tuple[TensorDesc, ...]
    accepted: frozenset[tuple[str, ...]] | None = None
    optional_fields: frozenset[str] = frozenset()
    variable_fields: frozenset[str] = frozenset()
    shape_values: tuple[Shape, ...] = ()


@dataclass(frozen=True)
class GpuCase:
    """Inputs for the kernel and the right answer.

    inputs:    arrays in the types that the plugin takes (bfloat16 from ml_dtypes).
    expected:  float64 outputs of the reference, computed from these very inputs.
    tolerance: allowed ||out - expected|| / ||expected||, for each output; where expected is all zeros, the allowed
               largest magnitude.
    """

    plugin: str
    name: str
    fields: Mapping[str, Value]
    inputs: tuple[np.ndarray, ...]
    expected: tuple[np.ndarray, ...]
    tolerance: tuple[float, ...]
    shape_values: tuple[Shape, ...] = ()

    @property
    def kind(self) -> str:
        """The class of cases that the case belongs to."""
        arrays = (*self.inputs, *self.expected)
        if any(array.size == 0 for array in arrays):
            return "no elements"
        floats = [np.asarray(array, np.float64) for array in arrays if array.dtype.kind not in "iub"]
        return "ordinary" if all(np.isfinite(array).all() for array in floats) else "NaN or infinity"


@dataclass(frozen=True)
class ModelCases:
    """The cases of a model: a contract case for each node, kernel cases of operators that have a function, and
    missing ones.
    """

    contract: tuple[ContractCase, ...]
    kernels: tuple[GpuCase, ...] = ()
    notes: tuple[str, ...] = ()

    def gpu_cases(self, plugin: str) -> tuple[GpuCase, ...]:
        """Returns the kernel cases of a plugin."""
        return tuple(case for case in self.kernels if case.plugin == plugin)


class CheckStatus(Enum):
    """FAIL: the plugin breaks the contract of TensorRT, or its definition. ADVICE: TensorRT does not forbid it."""

    PASS = "pass"
    FAIL = "fail"
    ADVICE = "advice"
    NOT_TESTABLE = "not testable"


@dataclass(frozen=True)
class CheckResult:
    """The outcome of one check. problem: its finding. note: why it is not testable, or a figure."""

    creator: str
    check: str
    case: str
    verdict: CheckStatus
    problem: Problem | None = None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


@dataclass(frozen=True)
class LibraryReport:
    """All results for one library. gpu: the GPU that kernels ran on; None: they did not."""

    library: str
    how: str
    gpu: str | None
    results: tuple[CheckResult, ...] = field(default=())

    def count(self, verdict: CheckStatus) -> int:
        return sum(result.verdict is verdict for result in self.results)

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        return tuple(result for result in self.results if result.verdict is CheckStatus.FAIL)

    @property
    def ok(self) -> bool:
        return not self.failures and self.count(CheckStatus.PASS) > 0

    def to_json(self) -> dict[str, Any]:
        return {
            "library": self.library,
            "how": self.how,
            "gpu": self.gpu,
            "passed": self.count(CheckStatus.PASS),
            "failed": self.count(CheckStatus.FAIL),
            "advice": self.count(CheckStatus.ADVICE),
            "not_testable": self.count(CheckStatus.NOT_TESTABLE),
            "results": [result.to_json() for result in self.results],
        }

    def render(self) -> str:
        """Writes the report as text: failures and advice in full, untestable checks with reasons, then each plugin's
        counts.
        """
        lines = []
        for status, word in ((CheckStatus.FAIL, "FAIL"), (CheckStatus.ADVICE, "advice")):
            for result in self.results:
                if result.verdict is status:
                    lines.append(
                        f"{word} {result.creator}: {result.check}{_in(result.case)}\n{result.problem}"
                    )
        reasons: dict[tuple[str, str], list[str]] = {}
        for result in self.results:
            if result.verdict is CheckStatus.NOT_TESTABLE:
                reasons.setdefault((result.creator, result.note), []).append(result.check)
        for (creator, note), checks in reasons.items():
            words = [
                check if checks.count(check) == 1 else f"{check} ({checks.count(check)} cases)"
                for check in dict.fromkeys(checks)
            ]
            lines.append(f"not testable {creator}: {', '.join(words)}: {note}")
        for creator in dict.fromkeys(result.creator for result in self.results):
            verdicts = [result.verdict for result in self.results if result.creator == creator]
            counts = ", ".join(
                f"{verdicts.count(verdict)} {verdict.value}"
                for verdict in CheckStatus
                if verdict is not CheckStatus.ADVICE or verdict in verdicts
            )
            lines.append(f"{creator}: {counts}")
        lines.append(
            f"kernels: run on {self.gpu}" if self.gpu else "kernels: not run, there is no GPU in use"
        )
        return "\n".join(lines)


def _in(case: str) -> str:
    return f" [{case}]" if case else ""
