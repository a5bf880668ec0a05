"""Names for new values and nodes: like what was wanted, and nobody's yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


class FreshNames:
    """Names that are taken; those that are given out are taken from then on. nodes: how many nodes have a name."""

    def __init__(self) -> None:
        self.nodes: Counter[str] = Counter()
        self._values: set[str] = set()
        self._numbers: Counter[str] = Counter()

    def take(self, values: Iterable[str]) -> None:
        self._values.update(values)

    def value(self, wanted: str) -> str:
        """A value name like `wanted`."""
        name = wanted
        while name in self._values:
            self._numbers[wanted] += 1
            name = f"{wanted}_{self._numbers[wanted]}"
        self._values.add(name)
        return name

    def node(self, wanted: str) -> str:
        """A node name like `wanted`."""
        name = wanted
        while self.nodes[name]:
            self._numbers["node " + wanted] += 1
            name = f"{wanted}_{self._numbers['node ' + wanted]}"
        self.nodes[name] += 1
        return name
