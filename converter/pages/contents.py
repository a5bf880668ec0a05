"""Collects the content of a report from the results of a conversion, verification, search or timing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.bench.subject import BenchOptions, open_source
from trtsmith.converter.convert.analysis import analyse
from trtsmith.converter.convert.conversion import Conversion
from trtsmith.converter.convert.conversion_options import ConvertOptions
from trtsmith.converter.convert.engine_analysis import analysis_of_engine
from trtsmith.converter.convert.foreign_nodes import foreign_plugins
from trtsmith.converter.convert.pipeline import analysis_of
from trtsmith.converter.convert.plan import plan
from trtsmith.converter.convert.precision_request import QUANTIZED, PrecisionRequest
from trtsmith.converter.engine.bundle.bundle import manifest_path
from trtsmith.converter.engine.bundle.manifest import read_document
from trtsmith.converter.engine.bundle.origin import origin_of
from trtsmith.converter.engine.bundle.run_from_bundle import request_for
from trtsmith.converter.locate.prepare import PreparedSearch
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model_bytes import ModelSource
from trtsmith.converter.pages.conversion_document import PageContent
from trtsmith.converter.pages.network.node_values import PicturedNetwork, pictured
from trtsmith.converter.verify.verify_bundle import VerifyOptions

Words = Sequence[str]
"""The command line, word for word; () where there was none."""


def of_conversion(
    words: Words, asked: ConvertOptions, report: Mapping[str, Any], done: Conversion | None
) -> PageContent:
    """Collects a conversion's report. done: None if it failed; then the report has the problems, and the model as far as it
    came.
    """
    if done is None:
        return PageContent("convert", _title(asked.model), words, report, {}, _attempted(asked))
    manifest = read_document(done.bundle.manifest) if done.bundle is not None else {}
    network = pictured(done.original, done.rewritten, done.plan) if done.original is not None else None
    return PageContent("convert", _title(asked.model), words, report, manifest, network)


def of_verification(
    words: Words,
    asked: VerifyOptions,
    report: Mapping[str, Any],
    frozen: Mapping[str, np.ndarray],
    searched: PreparedSearch | None = None,
    located: Mapping[str, Any] | None = None,
) -> PageContent:
    """Collects a verification's report. frozen: inputs that are constants in the engine. searched, located: of a search for
    a node, if any.
    """
    network = (
        _searched(searched)
        if searched is not None
        else _of_engine(asked.model, asked.engine, asked.plugins, frozen)
    )
    return PageContent(
        "verify", _title(asked.model), words, report, _manifest(asked.engine), network, located
    )


def of_search(
    words: Words,
    model: ModelSource,
    engine: Path | None,
    searched: PreparedSearch,
    located: Mapping[str, Any],
) -> PageContent:
    """Collects the report of `locate`."""
    return PageContent("locate", _title(model), words, {}, _manifest(engine), _searched(searched), located)


def of_timing(words: Words, asked: BenchOptions, document: Mapping[str, Any]) -> PageContent:
    """Collects the report of `bench`; an engine without its model has no network to draw."""
    network = None
    if asked.is_model:
        source = open_source(asked)
        planned = plan(source.rewritten, foreign_plugins(asked.plugins, source.rewritten.target))
        network = pictured(source.original, source.rewritten, planned)
    engine = None if asked.is_model else asked.target
    return PageContent("bench", asked.target.name, words, {}, _manifest(engine), network, bench=document)


def of_problems(kind: str, words: Words, model: object, report: Mapping[str, Any]) -> PageContent:
    """Collects the page of a command that failed."""
    return PageContent(kind, _title(model), words, report, {})


def _title(model: object) -> str:
    return model.name if isinstance(model, Path) else str(model)


def _manifest(engine: Path | None) -> Mapping[str, Any]:
    """The manifest; {} if it cannot be read, which was reported before."""
    if engine is None:
        return {}
    try:
        return read_document(manifest_path(engine))
    except (OSError, ValueError, RecursionError):
        return {}


def _attempted(asked: ConvertOptions) -> PicturedNetwork | None:
    """The routes as far as they can be known of a model that was not converted; None of one that cannot be read."""
    try:
        analysis = analysis_of(asked)
    except TrtsmithError:
        return None
    return pictured(analysis.original, analysis.rewritten, analysis.plan) if analysis is not None else None


def _searched(ready: PreparedSearch) -> PicturedNetwork:
    return pictured(ready.original, ready.reduced, ready.plan)


def _of_engine(
    model: ModelSource, engine: Path, plugins: tuple[Path, ...], frozen: Mapping[str, np.ndarray]
) -> PicturedNetwork:
    """The network as it was converted for an engine; without routes where that cannot be told any more."""
    original = load_model(model)
    try:
        options = analysis_of_engine(origin_of(engine), request_for(engine, plugins), frozen)
        if options.precision.precision in QUANTIZED:  # its scales came of samples
            options = replace(options, precision=PrecisionRequest())
        analysis = analyse(original, replace(options, compiled=False))
    except TrtsmithError:
        return pictured(original)
    return pictured(original, analysis.rewritten, analysis.plan)
