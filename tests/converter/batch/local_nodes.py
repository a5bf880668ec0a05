"""Starts a Ray of several nodes on this machine, for tests and measurements of a cluster."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]

STORE = 80 << 20
"""Bytes of a node's object store: the least that Ray takes."""

_HEALTH = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 5,
}


@contextlib.contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Variables for what is started in the block."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def without_sigint() -> Iterator[None]:
    """SIGINT is ignored, here and by what is started in the block."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def local_nodes(
    count: int, folder: Path, system: Mapping[str, Any] | None = None, **node: Any
) -> Iterator[Any]:
    """A ray.cluster_utils.Cluster of nodes with one core each.

    folder: for the files of Ray and of its tasks; its path must be short. system: Ray's internal settings; None: those by
    which it sees within seconds that a node is gone. node: options of every node. Its processes ignore SIGINT, as those
    do that a script starts in the background.
    """
    variables = {
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "TMPDIR": str(folder),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }
    with environment(**variables):
        from ray.cluster_utils import Cluster

        one = {"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False, **node}
        head = {
            **one,
            "_system_config": dict(_HEALTH if system is None else system),
            "temp_dir": str(folder / "ray"),
        }
        with contextlib.ExitStack() as running:
            with without_sigint():
                cluster: Any = Cluster(initialize_head=True, head_node_args=head)
                running.callback(cluster.shutdown)
                for _ in range(count - 1):
                    cluster.add_node(**one)
            yield cluster
