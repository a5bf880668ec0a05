"""Finds the fewest nodes of a model on which TensorRT fails in the same way, tried in child processes."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from trtsmith.converter.base.errors import BuildRefused, TrtsmithError
from trtsmith.converter.base.process.scratch_folder import ScratchFolder
from trtsmith.converter.base.progress import Progress
from trtsmith.converter.engine.builder.build_request import BuildRequest
from trtsmith.converter.engine.child.pool import Pool
from trtsmith.converter.engine.child.process import ChildDied, run_child
from trtsmith.converter.engine.reduction.graph_cut import Cut, WholeGraph, cut
from trtsmith.converter.engine.reduction.minimise import SMALL, Nodes, around, narrowed, size, thinned
from trtsmith.converter.engine.reduction.node_table import NodeTable
from trtsmith.converter.engine.reduction.shape_worker import SHAPE_WORKER
from trtsmith.converter.engine.reduction.trials import (
    JOBS,
    SHORTEST_S,
    TRIAL_WORKER,
    Trials,
    nodes_named,
    signature_of,
)
from trtsmith.converter.engine.reduction.value_sizes import Shape, value_sizes
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model

MOST_AROUND = 200
"""Nodes beside those that a message names that are tried together."""

SIZES_SHARE = 5
"""The divisor of the time for a run in onnxruntime, where sizes cannot be inferred."""

LARGE_SHARE = 4
"""The divisor of the time for coming to few nodes, unless so many builds take longer: a search that is still at hundreds of
nodes after it seldom ends."""

LARGE_BUILDS = 8.0

PATIENCE_SHARE = 9
"""The divisor of the time that may pass without fewer nodes while many are left."""

PARTS = 8
"""Of so many parts each is tried to be missing, and to be passed by, before smaller ones: of 292 nodes of VITS' duration
predictor single ones took 450 builds to reach 229, and parts 60 to reach 60."""

QUICKEST_LEVEL = 0
"""The builder's optimisation level in which most failures are there, too."""


@dataclass(frozen=True, eq=False)
class Reduced:
    """The reduced graph that TensorRT still does not build.

    model:    the nodes that fail, as a model; its weights are in the files of the model that was cut.
    nodes:    their numbers in `subject`. total: how many nodes the graph has.
    error:    what TensorRT said of them, or how its process ended.
    level:    the builder's optimisation level, where it is not the one that was asked for.
    seconds: what it took. complete: whether no node can be left out; False where the time was up.
    """

    model: Model
    cut: Cut
    subject: WholeGraph
    total: int
    error: BuildRefused | ChildDied
    level: int | None
    seconds: float
    complete: bool

    @property
    def nodes(self) -> Nodes:
        return frozenset(number for number in self.cut.nodes if number >= 0)

    def widened(self, steps: int) -> tuple[Model, Cut]:
        """Makes a model of the nodes with their neighbours, and with these neighbours' own, over so many steps."""
        table = self.subject.table
        nodes = self.cut.nodes if steps == 0 else self.nodes
        for _ in range(steps):
            outer = {number for number in nodes if number >= 0 and table.entries[number].parent is None}
            nodes = nodes | table.with_bodies(table.neighbours(outer))
        wider = cut(self.subject, nodes)
        return self.model.with_proto(wider.proto), wider


def reduce_refusal(
    request: BuildRequest,
    error: BuildRefused,
    *,
    flavour: str,
    limit_s: float,
    took_s: float = 0.0,
    by_name: bool = True,
    on_progress: Progress | None = None,
) -> Reduced | None:
    """Finds the smallest part of the request's model that fails with `error`; None if even the whole does not.

    flavour: of the TensorRT that refused it. limit_s: for all of it; as long as many nodes are left the search ends sooner,
    by what the refused build took (took_s) and by how long no fewer are found. by_name: whether the nodes
    that the message names are looked at first. Nothing is written but in the system's folder for temporary files, and
    nothing is left there; Ctrl-C ends all children.
    """
    started = time.monotonic()
    died = error.__cause__ if isinstance(error.__cause__, ChildDied) else None
    slowest_s = max(limit_s / 10, 2 * took_s)
    if died is not None and died.timed_out:
        took_s = slowest_s = max(SHORTEST_S, min(request.timeout_s or limit_s, limit_s / 10))
    model = load_model(request.onnx_path)
    table = NodeTable(model)
    sizes = value_sizes(
        table, request.profiles, partial(_run_shapes, request, flavour, limit_s / SIZES_SHARE)
    )
    subject = WholeGraph(table, sizes, request.profiles)
    with (
        ScratchFolder("reduce") as folder,
        Pool(TRIAL_WORKER, min(JOBS, os.cpu_count() or 1), flavour=flavour) as pool,
    ):
        for location, file in model.files.items():
            link = Path(folder) / location
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(Path(os.path.realpath(file.path)))
        trials = Trials(
            subject,
            replace(request, flavour=flavour, log_path=None, timing_cache=None, verbose=False),
            Path(folder),
            pool,
            signature_of(died or error),
            started + limit_s,
            time.monotonic() + max(limit_s / LARGE_SHARE, LARGE_BUILDS * took_s),
            limit_s / PATIENCE_SHARE,
            slowest_s,
            on_progress or (lambda text: None),
        )
        complete = _search(trials, nodes_named(died or error) if by_name else "")
    if trials.smallest is None or trials.error is None:
        return None
    return Reduced(
        model.with_proto(trials.smallest.proto),
        trials.smallest,
        subject,
        len(table.entries),
        trials.error,
        trials.request.optimization_level,
        time.monotonic() - started,
        complete,
    )


def _run_shapes(
    request: BuildRequest,
    flavour: str,
    limit_s: float,
    corners: Sequence[Mapping[str, Shape]],
    values: Sequence[str],
    names: Sequence[str],
) -> Sequence[Mapping[str, Shape]]:
    """What onnxruntime finds the sizes to be, in a child; nothing where it does not run the model, or not in time."""
    asked = {"model": str(request.onnx_path), "corners": corners, "values": values, "names": names}
    with suppress(TrtsmithError, ChildDied):
        found: Sequence[Mapping[str, Shape]] = run_child(
            SHAPE_WORKER, json.dumps(asked), flavour, timeout_s=limit_s
        )["shapes"]
        return found
    return ()


def _search(trials: Trials, said: str) -> bool:
    """Whether it came to an end before its time was up."""
    table = trials.subject.table
    every = frozenset(range(len(table.entries)))
    asked = trials.request
    start = None
    for level in dict.fromkeys((QUICKEST_LEVEL, asked.optimization_level)):
        trials.restart(replace(asked, optimization_level=level))
        start = _named(trials, said) or trials.tried([every])
        if start is not None:
            break
    if start is None:
        return not trials.is_late
    bodies = frozenset(table.inside(table.outer))
    nodes = narrowed(start, trials.tried, bodies, table.with_bodies, SMALL)
    parts = PARTS
    while not trials.is_late:
        before, least = nodes, max(1, size(nodes) // parts)
        nodes = thinned(nodes, trials.tried, table.outer, least=least)
        nodes = thinned(nodes, trials.tried, bodies, least=least)
        can_be_passed = [n for n in nodes if n >= 0 and trials.subject.passes(n) is not None]
        nodes = thinned(nodes, trials.tried, can_be_passed, pass_by=True, least=least)
        if nodes == before and least == 1:
            break
        parts *= PARTS if nodes == before else 1
    return not trials.is_late


def _named(trials: Trials, said: str) -> Nodes | None:
    """The nodes that TensorRT's message names, with as many beside them as it takes to fail."""
    table = trials.subject.table
    words = set(re.findall(r"[^\s\[\](){}<>,;:='\"]+", said))
    words |= {word.rstrip(".") for word in words} | set(re.findall(r"'([^'\n]+)'", said))
    named = set()
    for number in table.outer:
        entry = table.entries[number]
        inner = (table.entries[n].node for n in table.inside({number}))
        names = {name for node in (entry.node, *inner) for name in (node.name, *node.output) if name}
        held = {name for name in table.reads[number] if name not in table.producer}
        if not words.isdisjoint(names | held):
            named.add(number)
    if len(named) > MOST_AROUND:
        return None
    for nodes in around(frozenset(named), table.neighbours, MOST_AROUND):
        found = trials.tried([table.with_bodies(nodes)])
        if found is not None or trials.is_late:
            return found
    return None
