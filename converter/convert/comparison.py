"""Compares the graphs of a conversion, during the build of the engine if possible."""

from __future__ import annotations

from functools import partial

from typing_extensions import Self

from trtsmith.converter.base.progress import Steps
from trtsmith.converter.convert.analysis import Analysis
from trtsmith.converter.convert.conversion_options import ConvertOptions
from trtsmith.converter.convert.precision import brought_to, floats_decided
from trtsmith.converter.engine.builder.build_request import BuildResult
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.model.beside import Beside
from trtsmith.converter.rewrite.rewrite import Rewritten
from trtsmith.converter.verify.baseline import Baseline
from trtsmith.converter.verify.conversion_check import ConversionCheck, GraphsJudged
from trtsmith.converter.verify.elsewhere import ComparisonElsewhere
from trtsmith.converter.verify.rounding import engine_precision
from trtsmith.converter.verify.verdict import Verdict

MOST_BESIDE = 1 << 30
"""Bytes of weights from which on graphs are compared after the build: it holds them, too."""


def precision_to_judge_by(options: ConvertOptions, rewritten: Rewritten) -> str:
    """Returns the precision of the engine's arithmetic, which sets the tolerances."""
    report = rewritten.precision
    sums = report is not None and report.sums is not None
    return engine_precision(brought_to(options.precision, report), float16_sums=sums)


class GraphComparison:
    """The comparison of the graphs, in a thread while TensorRT builds in a child process.

    Not beside the build of a model of many weights, which memory would have to hold twice at a time, or with functions of
    the user's, which nothing stops.
    """

    def __init__(
        self, check: ConversionCheck | None, options: ConvertOptions, analysis: Analysis, progress: Steps
    ) -> None:
        self._check, self._options, self._analysis, self._progress = check, options, analysis, progress
        self._beside: Beside[GraphsJudged] | None = None
        self._found: tuple[Verdict, Baseline] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is not None:
            self.stop()

    def begin(self) -> None:
        files = self._analysis.original.files.values()
        references = self._options.references
        own = bool(references.nodes) or references.whole is not None
        if self._check is not None and not own and sum(file.size for file in files) < MOST_BESIDE:
            self._beside = Beside(partial(self._judged, self._check, self._analysis.rewritten))

    def stop(self) -> None:
        """Stops the comparison after a refusal by TensorRT, or when the conversion ends early."""
        if self._beside is not None:
            self._beside.stop()
            self._beside = None

    def verdict(self, rewritten: Rewritten, built: BuildResult, run: RunRequest) -> Verdict | None:
        """Of the graphs, and of the engine where it runs here; None where nothing is compared.

        rewritten: the graph that was built. run: how to run the engine.
        """
        if self._check is None:
            return None
        judged = self._beside.result() if self._beside is not None else self._judged(self._check, rewritten)
        verdict = self._check.run(judged, built, run)
        self._found = verdict, judged.baseline
        return verdict

    def elsewhere(self, rewritten: Rewritten) -> ComparisonElsewhere:
        """The reference data for an engine that another machine builds, once there is a verdict."""
        if self._check is None or self._found is None:
            raise ValueError("nothing was compared")
        return self._check.elsewhere(rewritten, precision_to_judge_by(self._options, rewritten), *self._found)

    def _judged(self, check: ConversionCheck, rewritten: Rewritten) -> GraphsJudged:
        decided = floats_decided(self._options.precision, rewritten.precision)
        return check.graphs(
            rewritten,
            precision_to_judge_by(self._options, rewritten),
            check.baseline(self._progress, wide=decided),
            self._analysis.plain,
            self._analysis.rewritten.typed,
        )
