"""Holds the machines of a batch on Ray: connected to, asked what they have, and found alike."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

from trtsmith.converter.batch.cache.machine_facts import MachineFacts, this_machine
from trtsmith.converter.batch.fleet.node_comparison import machine_problems
from trtsmith.converter.batch.fleet.node_facts import alive_nodes, ask_nodes
from trtsmith.converter.batch.fleet.ray_connection import RayConnection
from trtsmith.converter.batch.fleet.task_resources import Cluster
from trtsmith.converter.model.errors import UsageError
from trtsmith.importers.problem import Problem


class RayFleet:
    """A Ray, in a with statement. Entering it raises UsageError for no Ray, no cluster, and
    machines that are not like this one, all of them at once; at its end nothing is left of what was started.

    on:   "local", "auto" or HOST:PORT, see RayConnection. jobs: cores of a Ray that is started; None: all.

    ray: the module. here: what this machine has, without a GPU. cluster: the machines.
    """

    def __init__(self, on: str, jobs: int | None = None) -> None:
        self._connection = RayConnection(on, jobs)
        self._stack = contextlib.ExitStack()
        self.ray: Any = None
        self.here = MachineFacts({}, {}, "")
        self.cluster = Cluster(())

    def __enter__(self) -> RayFleet:
        with contextlib.ExitStack() as stack:
            self.ray = stack.enter_context(self._connection).ray
            self.here = replace(this_machine(), gpu=None)
            nodes = ask_nodes(self.ray, alive_nodes(self.ray))
            problems = machine_problems(self.here, nodes) if nodes else [self._no_machines()]
            if problems:
                raise UsageError(problems)
            self.cluster = Cluster(nodes)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _no_machines(self) -> Problem:
        return Problem(
            "the cluster has no machine that runs tasks",
            f"--on {self._connection.on}",
            "at least one node with cores",
            "ray start --address=HOST:PORT on a machine that is to do the work",
        )
