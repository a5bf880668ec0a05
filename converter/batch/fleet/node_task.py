"""A task on a machine of the cluster: what Ray runs there, as a generator whose items go to the driver."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from trtsmith.converter.batch.execution import Event, TaskEnd
from trtsmith.converter.batch.fleet.node_comparison import machine_problems
from trtsmith.converter.batch.fleet.node_facts import NodeFacts, RayNode, machine_without_gpu
from trtsmith.converter.batch.fleet.node_files import task_in_view
from trtsmith.converter.batch.fleet.node_station import FleetBatch, NodeStation, station_for
from trtsmith.converter.batch.fleet.shipped_files import PART, FileContent, Parts
from trtsmith.converter.batch.plain_data import with_text
from trtsmith.converter.batch.task import BatchTask
from trtsmith.converter.batch.task_record import FileFacts
from trtsmith.importers.problem import Problem

_TEXTS = (".html", ".json")


@dataclass(frozen=True)
class TaskOrder:
    """A task as it is sent. files: what is in its files. parts: contents that machines have asked for. gpu: the name of the
    GPU that Ray gives it; "" for none."""

    task: BatchTask
    files: tuple[FileContent, ...]
    parts: Parts
    gpu: str = ""


@dataclass(frozen=True)
class Began:
    """The first item of a task that runs. node: Ray's name of the machine."""

    node: str
    host: str
    pid: int


@dataclass(frozen=True)
class FilesLacking:
    """The only item of a task that cannot begin for want of these contents."""

    sha256s: tuple[str, ...]


@dataclass(frozen=True)
class MachineUnfit:
    """The only item of a task on a machine that came later, and is not like the others."""

    node: str
    problems: tuple[Problem, ...]


@dataclass(frozen=True)
class FilePart:
    """A piece of a file that the task has made; the pieces of one file follow each other. data: bytes, as uint8."""

    name: str
    data: Any


@dataclass(frozen=True)
class NoRoom:
    """The last item of a task for which this machine could not write files."""

    problem: Problem


def run_on_node(order: TaskOrder, batch: FleetBatch) -> Iterator[Any]:
    """Began, Events, the record as JSON, then its files; or one of the other items."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    if problems := _unfit(node, batch):
        yield MachineUnfit(node, problems)
        return
    try:
        station = station_for(batch, node, order.gpu)
        try:
            yield from _run(ray, order, station, node)
        finally:
            with station.lock:
                station.busy = False
    except OSError as error:
        yield NoRoom(_failed_file(order.task, error))


def _run(ray: Any, order: TaskOrder, station: NodeStation, node: str) -> Iterator[Any]:
    view: Path | None = None
    task = order.task
    if not station.files.are_here(order.files):
        if lacking := station.files.lacking(order.files, order.parts):
            yield FilesLacking(lacking)
            return
        station.files.take(ray, order.files, order.parts)
        view = station.files.view(order.files)
        task = task_in_view(task, view)
    yield Began(node, platform.node(), os.getpid())
    folder: Path | None = None
    try:
        for said in station.run(task):
            if isinstance(said, Event):
                yield said
            else:
                folder = said.folder
                yield said.record.to_json() if view is None else _record_without(view, said)
        if folder is not None:
            yield from _parts(folder)
    except (KeyboardInterrupt, GeneratorExit):  # Ray cancels the task
        station.stop()
        raise
    finally:
        for path in (view, folder):
            if path is not None:
                shutil.rmtree(path, ignore_errors=True)


def _record_without(view: Path, ended: TaskEnd) -> Mapping[str, Any]:
    """The record with the driver's paths in the place of those here, and pages and reports among its files likewise."""
    files = dict(ended.record.files)
    folder, here = ended.folder, str(view).encode()
    for name in [name for name in files if name.endswith(_TEXTS)] if folder is not None else ():
        path = Path(folder or "", name)
        data = path.read_bytes()
        if here in data:
            data = data.replace(here, b"")
            path.write_bytes(data)
            files[name] = FileFacts(hashlib.sha256(data).hexdigest(), len(data))
    document: Mapping[str, Any] = with_text(replace(ended.record, files=files).to_json(), str(view), "")
    return document


def _parts(folder: Path) -> Iterator[FilePart]:
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        with open(path, "rb") as file:
            while len(data := np.fromfile(file, np.uint8, PART)):
                yield FilePart(name, data)


def _unfit(node: str, batch: FleetBatch) -> tuple[Problem, ...]:
    """What is wrong with a machine that was not compared before the first task."""
    if any(facts.node.id == node for facts in batch.nodes):
        return ()
    return tuple(machine_problems(batch.here, [*batch.nodes, _own_facts(node)]))


@functools.lru_cache(maxsize=1)
def _own_facts(node: str) -> NodeFacts:
    return NodeFacts(RayNode(node, platform.node(), 1, 0, 0), machine_without_gpu(), host=platform.node())


def _failed_file(task: BatchTask, error: OSError) -> Problem:
    return Problem(
        f"a file of the task fails on {platform.node()}: {error.strerror or error}",
        f"{task.name}: {error.filename or tempfile.gettempdir()}",
        "files that stay as they are while the batch runs, and room for them on every machine",
        "free some space there; TMPDIR, where `ray start` was called, is the folder that is used",
    )
