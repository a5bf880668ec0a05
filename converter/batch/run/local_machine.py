"""Tells what this machine has for tasks: cores, GPUs, and what results depend on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from trtsmith.converter.batch.cache.machine_facts import MachineFacts, this_machine
from trtsmith.converter.batch.gpu_demand import ANY, GpuDemand, gpu_demand
from trtsmith.converter.batch.run.pending_tasks import fits
from trtsmith.converter.batch.task import BatchTask
from trtsmith.converter.engine.build.gpu import Gpu, find_gpus
from trtsmith.importers.problem import Problem


class LocalMachine:
    """The machine; what is given here stands for what it says of itself.

    cores: that this process may use. gpus: in the order of the driver. facts: of its first GPU, if it has one.
    """

    def __init__(
        self,
        cores: float | None = None,
        gpus: Sequence[Gpu] | None = None,
        facts: MachineFacts | None = None,
    ) -> None:
        self.cores = float(cores or len(os.sched_getaffinity(0)))
        self._gpus = gpus
        self._facts = facts

    @property
    def gpus(self) -> Sequence[Gpu]:
        if self._gpus is None:
            self._gpus = find_gpus()
        return self._gpus

    @property
    def facts(self) -> MachineFacts:
        if self._facts is None:
            self._facts = this_machine()
        return self._facts

    def with_gpu(self, task: BatchTask) -> BatchTask:
        """The task with the name of the GPU that it is run on in its needs: always the same kind, as results differ between
        kinds. A task that needs none has none, and sees none; where none fits it is as it was."""
        demand = gpu_demand(task, self.facts.flavours)
        if demand is None:
            return task
        gpu = self._gpu_for(demand)
        return replace(task, needs=replace(task.needs, gpu=demand.name if gpu is None else gpu.name))

    def _gpu_for(self, demand: GpuDemand) -> Gpu | None:
        """The first that fits, of those with a compute capability that the task builds for, if there is one."""
        fitting = [gpu for gpu in self.gpus if fits(demand.name, gpu.name)]
        return next((gpu for gpu in fitting if gpu.target in demand.targets), next(iter(fitting), None))

    def facts_for(self, task: BatchTask) -> MachineFacts | None:
        """What a task's result depends on; None where it cannot be run."""
        needed = self.with_gpu(task).needs.gpu
        if not needed:
            return replace(self.facts, gpu=None)
        gpu = next((gpu for gpu in self.gpus if fits(needed, gpu.name)), None)
        return None if gpu is None else replace(self.facts, gpu=gpu)

    def without_gpu(self, task: BatchTask) -> Problem:
        """What is said of a task that needs a GPU which is not there."""
        wanted = "a GPU" if task.needs.gpu == ANY else f"the GPU {task.needs.gpu}"
        there = ", ".join(sorted({gpu.name for gpu in self.gpus})) or "no GPU"
        return Problem(
            f"the task needs {wanted}; this machine has {there}",
            task.name,
            "a machine with what every task needs",
            "run the batch on such a machine, or on a cluster that has one (--on ADDRESS); --only leaves tasks out",
        )
