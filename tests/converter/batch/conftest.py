"""A Ray of two nodes on this machine, which the tests of a module share; Ray is an extra."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.converter.batch.local_nodes import local_nodes


@dataclass(frozen=True)
class Nodes:
    """cluster: of ray.cluster_utils. temporary: the folder of temporary files on its nodes."""

    cluster: Any
    temporary: Path

    @property
    def address(self) -> str:
        address: str = self.cluster.address
        return address

    def left(self) -> list[str]:
        """What batches have left on the nodes."""
        return [path.name for path in self.temporary.glob("trtsmith-*")]


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """An empty folder, whose path has room for the names of sockets."""
    folder = Path(tempfile.mkdtemp(prefix="", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    pytest.importorskip("ray")
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    try:
        with local_nodes(2, folder) as cluster:
            yield Nodes(cluster, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
