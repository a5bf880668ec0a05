"""Writes the reports of `check`, `convert` and `verify` as the JSON of --report, and reads them back.

report.schema.json says what is in them, as a JSON Schema. FORMAT is its version, the entry "format" of each: entries may be
added under one version, and those that are there keep their meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trtsmith.converter.base.errors import TrtsmithError, UsageError
from trtsmith.converter.engine.bundle.bundle import toolkit_version
from trtsmith.converter.engine.bundle.manifest import flag, items, mapping, read_document, text
from trtsmith.converter.verify.verdict import Verdict
from trtsmith.importers.problem import Problem

if TYPE_CHECKING:  # a report of `check` does not wait for what converts and verifies
    from trtsmith.converter.convert.analysis import Analysis
    from trtsmith.converter.convert.conversion import Conversion
    from trtsmith.converter.convert.conversion_options import ConvertOptions
    from trtsmith.converter.convert.opening import GivenModel
    from trtsmith.converter.convert.plan import Plan, PlannedNode
    from trtsmith.converter.rewrite.rewrite import Rewritten
    from trtsmith.converter.verify.verify_bundle import VerifyOptions

_DONE = {"check": "convertible", "convert": "converted", "verify": "verified"}
"""By kind, the entry of a report that says whether it was done."""

MANIFEST = "manifest"

FORMAT = 1

SCHEMA = Path(__file__).with_name("report.schema.json")


@dataclass(frozen=True)
class Report:
    """A report, or the manifest of an engine, as `load_report` reads it.

    kind:     "check", "convert", "verify" or "manifest".
    passed:   whether the command that wrote it ended with exit code 0.
    problems: all that kept it from doing what was asked.
    verdict:  on an engine's numbers; None where nothing was compared.
    routes:   the number of nodes by the route on which they reach TensorRT.
    document: everything that is in the file; print shows the rest.
    """

    kind: str
    passed: bool
    problems: tuple[Problem, ...]
    verdict: Verdict | None
    routes: Mapping[str, int]
    document: Mapping[str, Any] = field(repr=False)


def load_report(path: Path) -> Report:
    """Reads a --report of `check`, `convert` or `verify`, or a manifest. Raises UsageError for anything else."""
    try:
        return _report(read_document(path))
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        reason = (
            error.strerror if isinstance(error, OSError) else None
        ) or f"{type(error).__name__}: {error}"
        raise UsageError(
            f"the file cannot be read as a report: {reason if len(reason) <= 300 else reason[:297] + '...'}",
            str(path),
            "what --report of check, convert or verify writes, or the manifest of an engine",
            "correct the path, or run the command again with --report",
        ) from error


def analysis_report(model: GivenModel, analysis: Analysis) -> dict[str, Any]:
    """Makes the report of `check`: every node, and what was rewritten or left.

    "convertible" says that every node has a route and, where a build was tried, that there is an engine; "build" is null
    where none was tried.
    """
    rewritten, planned = analysis.rewritten, analysis.plan
    return {
        "format": FORMAT,
        "model": str(model),
        "convertible": analysis.convertible,
        "build": _build_report(analysis),
        "routes": planned.routes(),
        "nodes": _nodes(planned.nodes),
        **graph_report(planned, rewritten),
        "warnings": [*rewritten.warnings(), *planned.warnings],
        "problems": [problem.to_json() for problem in analysis.problems],
    }


def _nodes(nodes: Iterable[PlannedNode]) -> list[dict[str, Any]]:
    return [asdict(node) | {"route": node.route.value} for node in nodes]


def graph_report(planned: Plan, rewritten: Rewritten) -> dict[str, Any]:
    """Returns the rewrites of the graph, and the nodes left unchanged."""
    return {
        "plugins": [asdict(plugin) for plugin in planned.plugins],
        "rewrites": [asdict(record) for record in rewritten.rewrites],
        "declined": [asdict(record) for record in rewritten.declined],
        "frozen": [asdict(record) for record in rewritten.frozen],
        "io_types": [asdict(record) for record in rewritten.io_types],
        "precision": rewritten.precision.to_json() if rewritten.precision is not None else None,
    }


def _build_report(analysis: Analysis) -> dict[str, Any] | None:
    """The result of a trial build; None if there was none."""
    if analysis.refusal:
        return {"built": False}
    built = analysis.built
    if built is None:
        return None
    return {
        "built": True,
        "flavour": built.flavour,
        "version": built.version,
        "targets": list(built.targets),
        "bytes": built.size,
        "seconds": built.seconds,
        "mended": [asdict(one) for one in analysis.mended],
    }


def conversion_report(asked: ConvertOptions, done: Conversion) -> dict[str, Any]:
    """Returns the report of `convert`: engine, files, rewrites and verdict.

    "nodes" are those that TensorRT's own importers do not take as they are: of the others nothing is to be told.
    """
    from trtsmith.converter.convert.facts import profile_facts  # only who converts has imported it

    bundle = done.bundle
    return {
        "format": FORMAT,
        "converted": True,
        "trtsmith": toolkit_version(),
        "model": str(asked.model),
        "engine": done.built.to_json() | {"engine_path": str(bundle.engine) if bundle is not None else None},
        "libraries": [str(path) for path in done.libraries],
        "manifest": str(bundle.manifest) if bundle is not None else None,
        "routes": done.plan.routes(),
        "nodes": _nodes(node for node in done.plan.nodes if node.route.value != "native"),
        **graph_report(done.plan, done.rewritten),
        **profile_facts(done.rewritten, asked.values),
        "mended": [asdict(one) for one in done.mended],
        "warnings": list(done.warnings),
        "seconds": done.seconds,
        "verdict": done.verdict.to_json() if done.verdict is not None else None,
    }


def verify_report(asked: VerifyOptions, verdict: Verdict) -> dict[str, Any]:
    """Returns the report of `verify`: the verdict."""
    return {
        "format": FORMAT,
        "verified": True,
        "trtsmith": toolkit_version(),
        "model": str(asked.model),
        "engine": str(asked.engine),
        "verdict": verdict.to_json(),
    }


def failure_report(kind: str, error: TrtsmithError) -> dict[str, Any]:
    """Returns the report of a command that failed. kind: "convert" or "verify"."""
    return {
        "format": FORMAT,
        _DONE[kind]: False,
        "problems": [problem.to_json() for problem in error.problems],
    }


def _report(document: Mapping[str, Any]) -> Report:
    kind = next((kind for kind, entry in _DONE.items() if entry in document), MANIFEST)
    if kind == MANIFEST and not {"tensorrt", "files"} <= document.keys():
        raise ValueError(f"there is none of {', '.join(map(repr, _DONE.values()))} in it")
    problems = tuple(
        Problem(*(text(one[part]) for part in ("what", "where", "expected", "fix")))
        for one in map(mapping, items(document.get("problems", [])))
    )
    said = document.get("verdict")
    verdict = None if said is None else Verdict.from_json(mapping(said))
    done = kind == MANIFEST or flag(document[_DONE[kind]])
    routes = mapping(document.get("nodes" if kind == MANIFEST else "routes", {}))
    return Report(kind, done and (verdict is None or verdict.passed), problems, verdict, routes, document)
