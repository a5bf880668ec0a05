"""Holds the result of a conversion, as terminals and notebooks show it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

from trtsmith.converter.base.printable import one_line
from trtsmith.converter.convert.plan import Plan
from trtsmith.converter.convert.workarounds.refusals import Mended
from trtsmith.converter.engine.builder.build_request import BuildResult
from trtsmith.converter.engine.bundle.bundle import Bundle
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.rewrite import Rewritten
from trtsmith.converter.verify.verdict import Verdict


@dataclass(frozen=True, repr=False)
class Conversion:
    """What came out.

    plan:      how each node reached TensorRT.
    rewritten: what was done to the graph.
    built:     the engine: its size, TensorRT, GPUs, inputs and outputs.
    verdict:   on its numbers; None if none was asked for.
    bundle:    the files that were written; None where no output was named.
    seconds:   by stage.
    warnings:  what the user should know, one sentence each.
    engine:    the engine's file, or its bytes where no output was named.
    libraries: the plugin libraries that the engine needs, to be loaded before it; () where they are inside it.
    mended:    refusals of TensorRT's that were written around.
    advice:    what changes the verdict or strengthens it; "" for a plain agreement.
    original:  the model as it was read, by whose nodes people know it.
    calling:   of a PyTorch module how it is called (converter/engine/runtime/call_structure.py); None of an ONNX model.
    """

    plan: Plan
    rewritten: Rewritten
    built: BuildResult
    verdict: Verdict | None
    bundle: Bundle | None
    seconds: dict[str, float]
    warnings: tuple[str, ...]
    engine: Path | bytes = field(repr=False)
    libraries: tuple[Path, ...]
    calling: Mapping[str, Any] | None = field(default=None, repr=False)
    mended: tuple[Mended, ...] = ()
    advice: str = ""
    original: Model | None = field(default=None, repr=False)

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against the engine: its outputs agree, or no comparison was asked for."""
        return self.verdict is None or self.verdict.passed

    def reworded(self, said: Callable[[str], str]) -> Conversion:
        """The same with other words in its warnings and advice."""
        return replace(self, warnings=tuple(map(said, self.warnings)), advice=said(self.advice))

    def summary(self) -> str:
        """The verdict, the next step, the engine and the routes of the nodes, a line each; then warnings."""
        return "\n".join([repr(self), *(f"warning: {one_line(warning)}" for warning in self.warnings)])

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return "\n".join(f"{name + ':':<9}{text}" for name, text in self._lines().items())

    def _lines(self) -> dict[str, str]:
        verdict, built = self.verdict, self.built
        where = self.engine if isinstance(self.engine, Path) else "in memory"
        made = f"{built.size / 2**20:.1f} MiB, {built.flavour} {built.version}, {', '.join(built.targets)}"
        if not built.size and self.bundle is not None:
            made = f"to be built on {', '.join(built.targets)}"
        told = (f"{verdict.words}: {verdict.reason}", verdict.told_run) if verdict else ()
        reduced = self.rewritten.precision
        return {
            "verdict": one_line("; ".join(filter(None, told))) if verdict else "not asked for",
            **({"next": one_line(self.advice)} if self.advice else {}),
            "engine": one_line(f"{where} ({made})"),
            "nodes": ", ".join(f"{count} {route}" for route, count in self.plan.routes().items()) or "none",
            **({} if reduced is None else {"types": one_line(reduced.summary())}),
        }

    def _repr_html_(self) -> str:
        """What a notebook shows: the same, and the engine's outputs with what was found of each."""
        found = self.verdict.outputs if self.verdict is not None else {}
        errors = {c.output: max(c.relative, 0.0) for c in self.verdict.comparisons} if self.verdict else {}
        rows = [
            (
                o.name,
                "x".join(map(str, o.shape)),
                o.dtype,
                found.get(o.name, ""),
                f"{errors[o.name]:.1e}" if o.name in errors else "",
            )
            for o in self.built.outputs
        ]
        facts = _html_rows([(name, text) for name, text in self._lines().items()])
        header = _html_rows([("output", "shape", "type", "verdict", "relative error")], "th")
        warned = "".join(f"<p>warning: {escape(warning)}</p>" for warning in self.warnings)
        return f"<table>{facts}</table><table>{header}{_html_rows(rows)}</table>{warned}"


def _html_rows(rows: Sequence[Sequence[str]], cell: str = "td") -> str:
    return "".join(
        "<tr>" + "".join(f"<{cell}>{escape(text)}</{cell}>" for text in row) + "</tr>" for row in rows
    )
