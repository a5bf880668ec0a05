"""Builds an engine; if TensorRT refuses the graph, reduces it to the failing nodes and tries known workarounds on them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from shlex import quote

from trtsmith.converter.base.errors import BuildRefused, TrtsmithError, UsageError
from trtsmith.converter.base.options.shapes import ShapeRange
from trtsmith.converter.base.progress import Progress, notes_of
from trtsmith.converter.convert.workarounds.mitigations import MITIGATIONS
from trtsmith.converter.convert.workarounds.refusals import (
    Mended,
    Mitigation,
    Profiles,
    Refusals,
    RefusedGraph,
)
from trtsmith.converter.convert.workarounds.static_axes import with_static_axes
from trtsmith.converter.engine.builder.build import build
from trtsmith.converter.engine.builder.build_request import BuildRequest, BuildResult, Profile
from trtsmith.converter.engine.builder.flavour import choose_flavour
from trtsmith.converter.engine.builder.gpu import find_gpu
from trtsmith.converter.engine.reduction.reduce import Reduced, reduce_refusal
from trtsmith.converter.engine.reduction.reproducer import explained, save_refused
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.save import save_model
from trtsmith.importers.problem import Problem

MOST_FAULTS = 8
"""Refusals of one model that are mended, one after the other."""

MENDING_S = 60.0
"""For trying workarounds on one refusal, at the least; the reduction's time where more is left of it."""

LEAST_S = 10.0
"""For building with a narrower profile, and three times what the refusal took."""

MOST_STEPS = 4
"""So far from the nodes that TensorRT refuses others may be written anew: a constant is dequantized where it was moved."""


@dataclass(frozen=True)
class MendedBuild:
    """The engine, its graph, and the workarounds applied to it."""

    built: BuildResult
    model: Model
    mended: tuple[Mended, ...]


def build_mended(
    model: Model,
    request: BuildRequest,
    options: Refusals,
    progress: Progress,
    refused: Callable[[], None] = lambda: None,
) -> MendedBuild:
    """Writes the graph to request.onnx_path and builds it, with workarounds where needed and allowed.

    refused: called where TensorRT refuses, before anything else is tried.

    Raises BuildRefused with the nodes that TensorRT does not build, and what would help; else as `build` does.
    """
    work = _Mending(request, options, progress)
    while True:
        save_model(model, request.onnx_path)
        since = time.monotonic()
        try:
            return MendedBuild(build(work.request_for(model), progress), model, tuple(work.mended))
        except BuildRefused as error:
            refused()
            model = work.mended_model(model, error, time.monotonic() - since)


class _Mending:
    """The refusals of one model so far."""

    def __init__(self, request: BuildRequest, options: Refusals, progress: Progress) -> None:
        self.mended: list[Mended] = []
        self._request = request
        self._options = options
        self._progress = progress
        self._left = options.reduce_timeout if options.reduce else None
        self._done: set[tuple[str, frozenset[str]]] = set()

    def request_for(self, model: Model) -> BuildRequest:
        """The request without plugins that no node uses any more."""
        names = {node.name for graph in all_graphs(model.proto.graph) for node in graph.node}
        uses = tuple(use for use in self._request.plugins if use.node in names)
        return replace(self._request, plugins=uses)

    def mended_model(self, model: Model, error: BuildRefused, took_s: float) -> Model:
        """The model with a helpful workaround applied. Raises the refusal, explained, if none helps."""
        known = self._mended_by_words(model, error)
        if known is not None:
            return known
        searched = self._left is not None and self._left > 0
        reduced = self._reduced(model, error, took_s)
        if reduced is None:
            raise _with_fix(error, self._narrower(model, took_s)) if searched else error
        offered = []
        for mitigation in self._that_help(reduced) if len(self.mended) < MOST_FAULTS else ():
            if not self._does(mitigation):
                offered.append(mitigation)
                continue
            key = (mitigation.name, _made_by(reduced))
            changed = None if key in self._done else _applied(mitigation, model, reduced, self._request)
            if changed is not None:
                self._done.add(key)
                self.mended.append(_record(mitigation, reduced))
                notes_of(self._progress)(self.mended[-1].warning())
                return changed
        saved, unsaved = self._options.file, tuple[Problem, ...]()
        if saved is not None:
            try:
                save_refused(reduced, saved)
            except UsageError as failure:  # the refusal is what the user has to hear of, too
                saved, unsaved = None, failure.problems
        offer = _offer(offered) or self._narrower(model, took_s)
        told = explained(error, reduced, saved, offer)
        raise BuildRefused((*told.problems, *unsaved))

    def _mended_by_words(self, model: Model, error: BuildRefused) -> Model | None:
        """The model without a fault that TensorRT's message names; None for other messages, or the second time."""
        said = error.problems[0].what
        for mitigation in MITIGATIONS:
            pattern, op_type = mitigation.known or ("", "")
            nodes = [node for node in model.proto.graph.node if node.op_type == op_type]
            if not nodes or not self._does(mitigation) or not re.search(pattern, said):
                continue
            made = frozenset(output for node in nodes for output in node.output)
            changed = None
            with suppress(TrtsmithError):
                changed = mitigation.apply(RefusedGraph(model, made, self._request.profiles))
            if changed is not None:
                names = tuple((node.name or node.output[0], node.op_type) for node in nodes)
                self.mended.append(Mended(mitigation.name, mitigation.does, names, said))
                notes_of(self._progress)(self.mended[-1].warning())
                return changed
        return None

    def _does(self, mitigation: Mitigation) -> bool:
        """Whether the workaround is applied without a further request."""
        return self._options.mend and (bool(mitigation.exact) or mitigation.name in self._options.allowed)

    def _reduced(self, model: Model, error: BuildRefused, took_s: float) -> Reduced | None:
        if self._left is None or self._left <= 0:
            return None
        since = time.monotonic()
        self._progress("TensorRT refused the graph: looking for the nodes that it refuses")
        try:
            found = reduce_refusal(
                self.request_for(model),
                error,
                flavour=choose_flavour(self._request.flavour, find_gpu()),
                limit_s=self._left,
                took_s=took_s,
                on_progress=lambda text: self._progress(f"reduction: {text}"),
            )
            if found is None:
                took_s = time.monotonic() - since
                notes_of(self._progress)(
                    f"reduction: no smaller part with the same error was found in {took_s:.0f} s"
                )
            return found
        except (
            OSError,
            TrtsmithError,
        ) as failure:  # no room for the trials, say: the refusal stands as it is
            notes_of(self._progress)(f"reduction: it failed: {failure}")
            return None
        finally:
            self._left -= time.monotonic() - since

    def _that_help(self, reduced: Reduced) -> Iterator[Mitigation]:
        """The workarounds with which TensorRT builds the remaining nodes and the neighbours that they change."""
        until = time.monotonic() + max(MENDING_S, self._left or 0.0)
        for mitigation in MITIGATIONS:
            for steps in range(MOST_STEPS + 1):
                model, part = reduced.widened(steps)
                changed = None
                with suppress(TrtsmithError):
                    changed = mitigation.apply(RefusedGraph(model, _made_by(reduced), part.profiles))
                left = until - time.monotonic()
                if left <= 0:
                    return
                if changed is not None:
                    self._progress(f"trying {mitigation.name}: {mitigation.does}")
                    if self._builds(changed, part.profiles, reduced.level, left):
                        yield mitigation
                    break

    def _narrower(self, model: Model, took_s: float) -> str:
        """Flags of a narrower profile with which TensorRT builds the graph; "" if none helps."""
        if len(self._request.profiles) != 1:
            return ""
        (given,) = self._request.profiles
        made = frozenset(name for node in model.proto.graph.node for name in node.output)
        tried = [given]
        for what, fixed in _NARROWER.items():
            profile = {name: one if one.values else _fixed(one, fixed) for name, one in given.items()}
            if profile in tried:
                continue
            tried.append(profile)
            self._progress(f"trying a profile of {what}")
            with suppress(TrtsmithError):
                changed = with_static_axes(RefusedGraph(model, made, (profile,))) or model
                if self._builds(changed, (profile,), None, min(MENDING_S, 3 * took_s + LEAST_S)):
                    flags = (
                        f"--shapes {quote(f'{name}={ShapeRange(one.min, one.opt, one.max)}')}"
                        for name, one in profile.items()
                        if not one.values
                    )
                    return f"TensorRT builds it for {what}: {' '.join(flags)}"
        return ""

    def _builds(self, model: Model, profiles: Profiles, level: int | None, limit_s: float) -> bool:
        path = self._request.onnx_path.with_name("mended.onnx")
        wanted = replace(
            self.request_for(model),
            onnx_path=path,
            keep=False,
            profiles=tuple(p for p in profiles if p),
            optimization_level=level,
            timing_cache=None,
            verbose=False,
            timeout_s=min(limit_s, self._request.timeout_s or limit_s),
        )
        try:
            save_model(model, path)
            build(wanted)
        except TrtsmithError:
            return False
        finally:
            path.unlink(missing_ok=True)
        return True


_NARROWER = {
    "one size of the first axis": slice(0, 1),
    "fixed sizes but for the first axis": slice(1, None),
    "one shape": slice(0, None),
}
"""The axes with one size alone, in the order in which they are tried."""


def _fixed(given: Profile, axes: slice) -> Profile:
    """The profile with only the usual size along these axes."""

    def end(sizes: tuple[int, ...]) -> tuple[int, ...]:
        found = list(sizes)
        found[axes] = given.opt[axes]
        return tuple(found)

    return Profile(end(given.min), given.opt, end(given.max))


def _with_fix(error: BuildRefused, fix: str) -> BuildRefused:
    """The refusal with another fix before its own; unchanged for ""."""
    if not fix:
        return error
    first, *others = error.problems
    return BuildRefused([replace(first, fix=f"{fix}; {first.fix}"), *others])


def _applied(mitigation: Mitigation, model: Model, reduced: Reduced, request: BuildRequest) -> Model | None:
    with suppress(TrtsmithError):
        return mitigation.apply(RefusedGraph(model, _made_by(reduced), request.profiles))
    return None


def _made_by(reduced: Reduced) -> frozenset[str]:
    """The values of the main graph that the reduced nodes make."""
    entries = (reduced.subject.table.entries[number] for number in reduced.nodes)
    return frozenset(n for entry in entries if entry.parent is None for n in entry.node.output if n)


def _record(mitigation: Mitigation, reduced: Reduced) -> Mended:
    entries = [reduced.subject.table.entries[number] for number in sorted(reduced.nodes)]
    nodes = tuple((e.node.name or next(filter(None, e.node.output), ""), e.node.op_type) for e in entries)
    said = (
        str(reduced.error) if not isinstance(reduced.error, BuildRefused) else reduced.error.problems[0].what
    )
    return Mended(mitigation.name, mitigation.does, nodes, said)


def _offer(helping: list[Mitigation]) -> str:
    """The flag of the workaround that would have helped; "" if there is none."""
    if not helping:
        return ""
    first = helping[0]
    flag = f"--mend-with {first.name}" if not first.exact else "--mend"
    why = f", which means the same: {first.exact}" if first.exact else ", which may change results"
    return f"{flag}: {first.does}{why}"
