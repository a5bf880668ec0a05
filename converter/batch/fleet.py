"""Runs tasks on Ray, which schedules and cancels them and moves the bytes of models and engines."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import shutil
import signal
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.process.scratch_folder import ScratchFolder, remove_left_folders
from trtsmith.converter.batch.child import ChildSetup, TaskRunner, with_text
from trtsmith.converter.batch.command_words import ANY, GpuDemand, below, gpu_demand, renamed_paths
from trtsmith.converter.batch.file_hashes import FileHashes
from trtsmith.converter.batch.keys import facts_of_key
from trtsmith.converter.batch.machine import MachineFacts, machine_problems, this_machine
from trtsmith.converter.batch.ray_connection import RayConnection
from trtsmith.converter.batch.task import (
    BatchTask,
    Event,
    EventListener,
    FileFacts,
    TaskEnd,
    TaskRecord,
    TaskStatus,
    cancelled,
    is_below,
    record_of,
)
from trtsmith.importers.problem import Problem

RETRIES = 2
"""How often a task is begun again whose worker or machine was lost."""

PATIENCE_S = 60.0
"""How long a task waits for a machine that can run it after the last of them has gone."""

PART = 16 << 20
"""Bytes of a file in one object: a store may have as little as 80 MiB."""

PROBE_S = 90.0
"""For the answers of all machines together. Starting Python there and reading our sources takes 3 s on an idle one."""

_POLL_S, _NODES_S = 0.3, 5.0
_CANCELS = ((False, 10.0), (False, 10.0), (False, 10.0), (True, 5.0))
"""How cancelled tasks are ended: whether by killing their workers, and how long that may take. Only a worker that lives ends
what its task has started; one that is about to begin a task may miss to be interrupted, so it is told again."""

_MORE = 16
"""Tasks that Ray has beyond two for each core: the others wait here as plain data, whatever their number."""

_MIB = 2**20
_TEXTS = (".html", ".json")


@dataclass(frozen=True)
class ClusterNode:
    """A machine of the cluster. resources: in Ray's form. facts: its own account, with its GPU; None before."""

    id: str
    address: str
    resources: Mapping[str, float]
    facts: MachineFacts | None = None

    @property
    def accelerator(self) -> str:
        """Ray's name for the kind of its GPUs, such as "L4"; "" if it has none, or Ray no name for them."""
        kinds = (name.partition(":") for name in self.resources if name.startswith("accelerator_type:"))
        return next((kind for _, _, kind in kinds), "")

    def has(self, asked: Mapping[str, Any]) -> bool:
        """Tells whether the idle machine could run a task with these Ray options."""
        names = {"num_cpus": "CPU", "memory": "memory", "num_gpus": "GPU"}
        enough = all(self.resources.get(name, 0) >= asked.get(option, 0) for option, name in names.items())
        return enough and asked.get("accelerator_type", self.accelerator) == self.accelerator


class RayExecutor:
    """A TaskExecutor on Ray. Entering it raises UsageError without Ray or a cluster, or if its machines differ from this
    one.

    on:     "local", "auto" or HOST:PORT, see RayConnection. jobs: cores of a Ray that is started; None: all.
    folder: an existing one, in which results are made as folders. hashes: of files, where the caller has some.
    """

    def __init__(
        self, on: str, folder: Path, setup: ChildSetup, hashes: FileHashes, *, jobs: int | None = None
    ) -> None:
        self._connection = RayConnection(on, jobs)
        self._folder, self._setup, self._hashes = folder, setup, hashes
        self._stopped = threading.Event()
        self._nodes: list[ClusterNode] = []
        self._here = MachineFacts({}, {}, "")
        self._running: dict[Any, _Running] = {}
        self._unfit: set[str] = set()  # machines that came later and are not like the others
        self._contents: dict[str, list[Any]] = {}  # references by SHA-256, of what machines have asked for

    def __enter__(self) -> RayExecutor:
        self._connection.__enter__()
        try:
            self._here = replace(this_machine(), gpu=None, files={})
            self._nodes = self._asked(_alive(self._ray))
        except BaseException:
            self._connection.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        """Cancels the tasks that Ray still has, since the reader may have stopped early."""
        try:
            self._cancel()
        finally:
            self._connection.__exit__()

    @property
    def _ray(self) -> Any:
        return self._connection.ray

    def stop(self) -> None:
        """Stops the batch, as TaskExecutor requires. A signal handler may call it."""
        self._stopped.set()

    def machine_of(self, task: BatchTask) -> MachineFacts | None:
        """Returns the machine of a task; all machines that can run it are alike."""
        asked = self._options(task)
        node = next((node for node in self._nodes if asked is not None and node.has(asked)), None)
        if node is None or node.facts is None or asked is None:
            return None
        return node.facts if "num_gpus" in asked else replace(node.facts, gpu=None)

    def run(self, tasks: Sequence[BatchTask], listener: EventListener) -> Iterator[TaskEnd]:
        """As TaskExecutor says; UsageError, before anything runs, for tasks that no machine of the cluster can do."""
        if problems := list(self._lacking(tasks)):
            raise UsageError(problems)
        return self._run(tasks, listener)

    def _run(self, tasks: Sequence[BatchTask], listener: EventListener) -> Iterator[TaskEnd]:
        waiting = deque(_Running(task, self._options(task) or {}) for task in tasks)
        most = _MORE + 2 * int(sum(node.resources.get("CPU", 0) for node in self._nodes))
        looked = fitting = time.monotonic()
        try:
            while (waiting or self._running) and not self._stopped.is_set():
                while waiting and len(self._running) < most:
                    yield from self._start(waiting.popleft(), listener)
                if not self._running:
                    continue
                ready, _ = self._ray.wait(list(self._running), timeout=_POLL_S, fetch_local=False)
                for reference in ready:
                    yield from self._take(self._running.pop(reference), reference, waiting, listener)
                now = time.monotonic()
                if now > looked + _NODES_S:
                    looked = now
                    alive = [node for node in _alive(self._ray) if node.id not in self._unfit]
                    lost = [r for r, one in self._running.items() if not any(n.has(one.asked) for n in alive)]
                    fitting = fitting if lost else now
                    for reference in lost if now > fitting + PATIENCE_S else ():
                        one = self._running.pop(reference)
                        self._ray.cancel(reference)
                        yield TaskEnd(
                            one.task, _lost(one, "no machine is left in the cluster that can run it")
                        )
            left = [*self._running.values(), *waiting]
            self._cancel()
            for one in left:
                record = record_of(one.task, TaskStatus.CANCELLED, cancelled(one.task))
                yield TaskEnd(one.task, record)
        finally:
            self._cancel()

    def _start(self, one: _Running, listener: EventListener) -> Iterator[TaskEnd]:
        """Hand it to Ray; it has ended where its files cannot be read."""
        try:
            self._hashes.read(one.task.files)
            contents = {str(path): self._hashes.of(path) for path in one.task.files}
        except OSError as error:
            yield TaskEnd(one.task, record_of(one.task, TaskStatus.INVALID, _unusable(one.task, error)))
            return
        function = self._ray.remote(run_on_node).options(
            num_returns="streaming", max_retries=0, name="trtsmith batch", **one.asked, **self._others()
        )
        gpu = one.asked.get("accelerator_type", "GPU") if "num_gpus" in one.asked else ""
        parts = {sha256: self._contents[sha256] for sha256 in contents.values() if sha256 in self._contents}
        machine = self.machine_of(one.task)
        keyed = None if machine is None else replace(machine, files={})
        reference = function.remote(one.task, contents, parts, self._here, self._setup, gpu, keyed)
        self._running[reference] = one
        listener(Event(one.task.name, "", step="on the cluster"))

    def _take(
        self, one: _Running, reference: Any, waiting: deque[_Running], listener: EventListener
    ) -> Iterator[TaskEnd]:
        """What came of an attempt: the end of the task, or another attempt."""
        exceptions = self._ray.exceptions
        folder = Path(tempfile.mkdtemp(prefix="fleet-", dir=self._folder))
        try:
            first, *parts = reference  # a generator, which gives nothing before the task has ended
            said = self._ray.get(first)
            if not isinstance(said, str):
                if isinstance(said, list):  # contents that the machine lacks
                    self._contents |= {sha256: self._put(one.task, sha256) for sha256 in said}
                else:
                    self._leave_out(said, listener)
                waiting.appendleft(one)
                shutil.rmtree(folder)
                return
            record = replace(TaskRecord.from_json(said), attempts=one.attempts)
            self._write(record, folder, parts)
        except OSError as error:
            record = record_of(one.task, TaskStatus.INVALID, _unusable(one.task, error))
        except (exceptions.RayError, ValueError) as error:
            cause = error.cause if isinstance(error, exceptions.RayTaskError) else error
            if isinstance(error, exceptions.RayTaskError) and not isinstance(cause, exceptions.RayError):
                record = record_of(one.task, *_mistake(one.task, cause), attempts=one.attempts)
            elif one.attempts <= RETRIES:
                listener(Event(one.task.name, f"begun again: {type(cause).__name__}"))
                waiting.appendleft(replace(one, attempts=one.attempts + 1))
                shutil.rmtree(folder)
                return
            else:
                record = _lost(one, str(cause), memory=isinstance(cause, exceptions.OutOfMemoryError))
        if not record.files:
            shutil.rmtree(folder)
        yield TaskEnd(one.task, record, folder if record.files else None)

    def _leave_out(self, unfit: Unfit, listener: EventListener) -> None:
        if unfit.node not in self._unfit:
            self._unfit.add(unfit.node)
            for problem in unfit.problems:
                text = f"the machine {problem.where} came later and is left out: {problem.what}"
                listener(Event("", text, place=problem.where))

    def _others(self) -> dict[str, Any]:
        """Ray's option that leaves out machines which are not like the others."""
        unfit = ",".join(sorted(self._unfit))
        return {"label_selector": {"ray.io/node-id": f"!in({unfit})"}} if unfit else {}

    def _put(self, task: BatchTask, sha256: str) -> list[Any]:
        """The content in Ray's store. It is read and not mapped: a file that shrinks while it is mapped ends the process."""
        path = next(path for path in task.files if self._hashes.of(path) == sha256)
        with open(path, "rb") as file:
            return [self._ray.put(data) for data in iter(functools.partial(file.read, PART), b"")]

    def _write(self, record: TaskRecord, folder: Path, parts: Sequence[Any]) -> None:
        """The files, in the order of the record. ValueError where they are not what it says."""
        left = parts
        for name, facts in record.files.items():
            if not is_below(name):
                raise ValueError(f"{name!r} lies outside of the task's folder")
            count = -(-facts.bytes // PART)
            parts, left = left[:count], left[count:]
            if _joined(self._ray, parts, folder / name) != (facts.sha256, facts.bytes):
                raise ValueError(f"{name} is not what its record says")

    def _cancel(self) -> None:
        """End what Ray has of it, and wait until it is gone. A worker that does not heed it is killed."""
        left = list(self._running)
        self._running.clear()
        for force, patience in _CANCELS:
            for reference in left:
                self._ray.cancel(reference, force=force)
            ends = {reference.completed(): reference for reference in left}
            if ends:
                _, late = self._ray.wait(
                    list(ends), num_returns=len(ends), timeout=patience, fetch_local=False
                )
                left = [ends[end] for end in late]

    def _asked(self, nodes: Sequence[ClusterNode]) -> list[ClusterNode]:
        """The machines with what they say of themselves. UsageError for those that are not like this one."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        asked = [
            self._ray.remote(facts_of_node)
            .options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False))
            .remote()
            for node in nodes
        ]
        found, problems = [], []
        for node, reference in zip(nodes, asked, strict=True):
            try:
                found.append(replace(node, facts=self._ray.get(reference, timeout=PROBE_S)))
            except Exception as error:  # of Ray, and of whatever is installed there
                lines = [line.strip() for line in str(error).splitlines() if "Error" in line]
                problems.append(
                    Problem(
                        f"the machine cannot report its installed packages: {(lines or [type(error).__name__])[-1]}",
                        node.address,
                        "the same trtsmith as here, in the Python that runs Ray there",
                        "install the same trtsmith, with the extra `fleet`, on every machine of the cluster",
                    )
                )
        if not nodes:
            fix = "ray start --address=HOST:PORT on a machine that should run tasks"
            what, expected = "the cluster has no machine that runs tasks", "at least one node with cores"
            problems.append(Problem(what, f"--on {self._connection.on}", expected, fix))
        machines = {f"{node.address} (node {node.id[:8]})": node.facts for node in found if node.facts}
        if problems := [*problems, *machine_problems(self._here, machines)]:
            raise UsageError(problems)
        return found

    def _demand(self, task: BatchTask) -> GpuDemand | None:
        without = [node for node in self._nodes if not node.resources.get("GPU")] or self._nodes
        return gpu_demand(task, {name for node in without if node.facts for name in node.facts.flavours})

    def _options(self, task: BatchTask) -> dict[str, Any] | None:
        """What Ray is to hold for the task; None for one that needs a GPU of which there is none. Its GPU is always of the
        same kind, since results differ from GPU to GPU: that of which there are most."""
        options: dict[str, Any] = {"num_cpus": task.needs.cpus}
        if task.needs.memory_mib:
            options["memory"] = task.needs.memory_mib * _MIB
        demand = self._demand(task)
        if demand is None:
            return options
        count: dict[str, float] = {}
        for node in self._nodes:
            gpu = node.facts.gpu if node.facts else None
            named = demand.name == ANY or demand.name.lower() == node.accelerator.lower()
            if (
                named
                and node.resources.get("GPU")
                and (not demand.targets or (gpu and gpu.target in demand.targets))
            ):
                count[node.accelerator] = count.get(node.accelerator, 0) + node.resources["GPU"]
        if not count:
            return None
        kind = max(sorted(count), key=lambda name: count[name])
        return options | {"num_gpus": 1} | ({"accelerator_type": kind} if kind else {})

    def _lacking(self, tasks: Sequence[BatchTask]) -> Iterator[Problem]:
        """What tasks need and no machine has, each lack once with the tasks that have it."""
        lacking: dict[tuple[str, str, str], list[str]] = {}
        for task in tasks:
            asked, demand = self._options(task), self._demand(task)
            if asked is None and demand is not None:
                kind = " of compute capability " + " or ".join(demand.targets) if demand.targets else ""
                wanted = f"a GPU{'' if demand.name == ANY else ' ' + demand.name}{kind}"
                fix = (
                    "add such a machine; or leave these tasks out; TensorRT-RTX builds without a GPU, where neither bench "
                    "nor --verify engine asks for one"
                )
                lacking.setdefault((wanted, demand.why, fix), []).append(task.name)
            elif asked is not None and not any(node.has(asked) for node in self._nodes):
                wanted = f"{task.needs.cpus:g} cores and {task.needs.memory_mib or 0} MiB"
                fix = "ask for less (cpus, memory) in the zoo, or add such a machine"
                lacking.setdefault((wanted, "its needs", fix), []).append(task.name)
        has = "; ".join(sorted({_resources_text(node) for node in self._nodes}))
        for (wanted, why, fix), names in lacking.items():
            shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            yield Problem(
                f"no machine of the cluster has {wanted}",
                f"{shown}: {why}",
                f"at most what a machine has: {has}",
                fix,
            )


@dataclass
class _Running:
    """A task, with Ray's options for it. attempts: this one included."""

    task: BatchTask
    asked: dict[str, Any]
    attempts: int = 1


@dataclass(frozen=True)
class Unfit:
    """The reason why a machine that joined later differs from the others. node: its name in Ray."""

    node: str
    problems: tuple[Problem, ...]


def _alive(ray: Any) -> list[ClusterNode]:
    """The machines on which tasks can run; one that gives no cores runs none."""
    nodes = [
        ClusterNode(entry["NodeID"], entry["NodeManagerAddress"], entry["Resources"])
        for entry in ray.nodes()
        if entry["Alive"] and entry["Resources"].get("CPU")
    ]
    return sorted(nodes, key=lambda node: (node.address, node.id))


def _resources_text(node: ClusterNode) -> str:
    gpus = node.resources.get("GPU", 0)
    target = f" ({node.facts.gpu.target})" if node.facts and node.facts.gpu else ""
    gpu = f", {gpus:g} GPUs {node.accelerator}{target}" if gpus else ", no GPU"
    return f"{node.resources['CPU']:g} cores, {node.resources.get('memory', 0) / _MIB:.0f} MiB{gpu}"


def _lost(one: _Running, said: str, *, memory: bool = False) -> TaskRecord:
    said = " ".join(said.split())
    if memory:
        status, what = TaskStatus.MEMORY, f"the machine ran out of memory, and Ray ended the task: {said}"
        expected = "tasks that fit into the memory of their machine together"
        fix = "say in the zoo how much `memory` it takes: Ray then gives the machine no more tasks than fit"
    else:
        times = f"it was lost {one.attempts} times: " if one.attempts > 1 else ""
        status, what = TaskStatus.LOST, f"its worker or its machine was lost; {times}{said}"
        expected = "a machine that stays until the task ends"
        fix = "run the same command again to continue"
    problem = Problem(what, one.task.name, expected, fix)
    return record_of(one.task, status, problem, attempts=one.attempts)


def _mistake(task: BatchTask, error: BaseException) -> tuple[TaskStatus, Problem]:
    """The problem behind an exception on the machine: a file that fails there, or our code."""
    if isinstance(error, OSError):
        return TaskStatus.INVALID, _unusable(task, error)
    what = f"trtsmith failed: {type(error).__name__}: {error}"
    return TaskStatus.CRASHED, Problem(what, task.name, "no such error", "report it, with the zoo's entry")


def _unusable(task: BatchTask, error: OSError) -> Problem:
    return Problem(
        f"a file cannot be used: {error.strerror or error}",
        f"{task.name}: {error.filename or 'its result'}",
        "files that can be read and do not change during the batch, and disk space for results on every machine",
        "correct the path or its permissions, or free some space; temporary files go to TMPDIR of the shell that called "
        "`ray start`",
    )


def facts_of_node() -> MachineFacts:
    """Collects facts about this machine."""
    return _facts_of_process()


@functools.cache
def _facts_of_process() -> MachineFacts:
    """Ray hides GPUs from a task that asks for none: they are looked for anyway."""
    hidden = os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    try:
        return this_machine()
    finally:
        if hidden is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = hidden


def run_on_node(
    task: BatchTask,
    contents: Mapping[str, str],
    parts: Mapping[str, Sequence[Any]],
    here: MachineFacts,
    setup: ChildSetup,
    gpu: str,
    keyed: MachineFacts | None,
) -> Iterator[Any]:
    """Runs a task on a machine of the cluster. Yields the record's JSON, then its files in parts of PART bytes; or a list of
    the SHA-256 that the machine lacks, or why it is unfit.

    contents: SHA-256 by path. parts: of contents that were asked for, references. here: the driver's machine.
    keyed: the machine of which the task's key was made; one with other variables or libraries keeps no result.
    """

    import ray

    here_too = {platform.node(): replace(facts_of_node(), gpu=None)}
    if problems := machine_problems(here, here_too):  # it came later
        yield Unfit(ray.get_runtime_context().get_node_id(), tuple(problems))
        return
    remove_left_folders()
    with ScratchFolder("batch") as name, ScratchFolder("files") as view:
        mine, hashes = task, FileHashes()
        if any(
            not os.path.exists(path) or hashes.of(Path(path)) != sha256 for path, sha256 in contents.items()
        ):
            if lacking := sorted(set(contents.values()) - parts.keys()):
                yield lacking
                return
            for path, sha256 in contents.items():
                target = _moved(view, path)
                if _joined(ray, parts[sha256], target)[0] != sha256:
                    raise OSError(5, "the file was changed while it was sent", str(target))
                target.chmod(0o400)
            mine = _task_in(task, view)
        there = [path for path in setup.paths if path.is_dir()]
        cwd = setup.cwd if setup.cwd is not None and setup.cwd.is_dir() else None
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0") if gpu else ""
        setup = replace(setup, paths=there, cwd=cwd)
        with TaskRunner(Path(name), setup, gpu=gpu, visible=visible, machine=facts_of_node()) as runner:
            ended = _wait(runner, mine)
        folder = ended.folder or Path(name)
        record = ended.record if mine is task else _without(view, ended.record, folder)
        if keyed is not None and not _is_alike(task, keyed):
            other = f"other variables or packages of the machine {platform.node()}"
            record = replace(record, unkeyed=(*record.unkeyed, other))
        yield json.dumps(record.to_json())
        for file in record.files:
            with open(folder / file, "rb") as stream:
                while data := stream.read(PART):
                    yield data


def _is_alike(task: BatchTask, keyed: MachineFacts) -> bool:
    """Whether a key that is made of this machine is the one that was made of the other."""
    return facts_of_key(task, replace(facts_of_node(), gpu=keyed.gpu)) == facts_of_key(task, keyed)


def _wait(runner: TaskRunner, task: BatchTask) -> TaskEnd:
    """In a thread, so that Ray can interrupt this one.

    It does as SIGINT would, which a cluster that a script started in the background ignores; then what a task had started
    outlived it.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(runner.run, task, lambda event: None)
        try:
            while True:
                try:
                    return future.result(timeout=0.2)
                except NotYet:
                    continue
        finally:  # Ray cancels the task
            runner.stop()


def _joined(ray: Any, parts: Sequence[Any], target: Path) -> tuple[str, int]:
    """Write a file of the parts of its content: (SHA-256, bytes)."""
    target.parent.mkdir(parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    with open(target, "xb") as file:
        for part in parts:
            data = ray.get(part)
            size += file.write(data)
            digest.update(data)
    return digest.hexdigest(), size


def _moved(view: str, path: str) -> Path:
    """The place of an absolute path in a view, never outside of it."""
    return Path(view) / os.path.normpath(path).lstrip(os.sep)


def _task_in(task: BatchTask, view: str) -> BatchTask:
    """The task with the paths that its files and their folders have in the view."""

    def renamed(text: str) -> str | None:
        path = Path(os.path.normpath(text))
        return str(_moved(view, text)) if path in task.files or below(path, task.files) else None

    return replace(
        task,
        source=renamed_paths([task.source], renamed)[0],
        words=tuple(renamed_paths(task.words, renamed)),
        bench=None if task.bench is None else tuple(renamed_paths(task.bench, renamed)),
        tune=None if task.tune is None else tuple(renamed_paths(task.tune, renamed)),
        files=tuple(_moved(view, str(path)) for path in task.files),
    )


def _without(view: str, record: TaskRecord, folder: Path) -> TaskRecord:
    """The record with the driver's paths in the place of those here, and pages and reports among its files likewise."""
    files = dict(record.files)
    for name in (name for name in files if name.endswith(_TEXTS)):
        data = (folder / name).read_bytes().replace(view.encode(), b"")
        (folder / name).write_bytes(data)
        files[name] = FileFacts(hashlib.sha256(data).hexdigest(), len(data))
    plain = with_text(replace(record, files=files).to_json(), view, "")

    return TaskRecord.from_json(json.dumps(plain))
