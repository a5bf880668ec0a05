"""Makes the data of a page with every element, for a model that is rewritten and planned but neither built nor run."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from trtsmith.converter.convert.analysis import AnalysisOptions, analyse
from trtsmith.converter.convert.reports import analysis_report
from trtsmith.converter.model.load import load_model
from trtsmith.converter.pages.conversion_document import PageContent, conversion_document
from trtsmith.converter.pages.network.node_values import pictured


def sample_document(model: Path, seed: int = 0) -> dict[str, Any]:
    """The page's data. Routes, rules and types are the model's own; errors, which grow with depth, and times are
    invented.
    """
    analysis = analyse(load_model(model), AnalysisOptions())
    network = pictured(analysis.original, analysis.rewritten, analysis.plan)
    report = {**analysis_report(model, analysis), "converted": True}
    words = ("trtsmith", "convert", str(model.name), "-o", "model.plan")
    document = conversion_document(PageContent("convert", model.name, words, report, {}, network))
    numbers = random.Random(seed)
    error = 1e-7
    for index, entry in enumerate(network.entries.all):
        if entry.role != "node" or not entry.outputs:
            continue
        error = min(error * numbers.uniform(0.999, 1.0025), 0.5)
        wrong = "relative error 3.1e-02, allowed 1.0e-03" if numbers.random() < 0.002 else ""
        size = 3.1e-2 if wrong else error * numbers.uniform(0.4, 2.0)
        document["errors"].append([index, entry.outputs[0], size, wrong])
        document["times"][index] = [round(numbers.expovariate(100), 5), numbers.choice((1, 1, 3))]
    return document
