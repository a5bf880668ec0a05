"""Child side: computes a graph layout with fast-sugiyama, whose native code may hang or crash."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.serve import serve


def work(request_json: str, events: Events, log_path: Path) -> Mapping[str, Any]:
    """Computes the place of each node, and the bends of edges that pass rows: they avoid the nodes there.

    The request: edges, pairs of numbers below `count`; fine: whether crossings are avoided with more patience.
    """
    del events, log_path
    from fast_sugiyama import from_edges

    request = json.loads(request_json)
    count, edges = request["count"], [tuple(edge) for edge in request["edges"]]
    how: dict[str, Any] = {} if request["fine"] else {"crossing_minimization": "median", "transpose": False}
    places: dict[int, tuple[float, float]] = {}
    bends: list[list[float]] = []
    left = 0.0
    for nodes, width, height, links in from_edges(edges, ranking_type="up", **how).to_list():
        # every part has numbers of its own for the bends of its edges
        here = {int(node): (float(x + left), float(height - y)) for node, (x, y) in nodes}
        places |= {node: place for node, place in here.items() if node < count}
        steps = [(int(source), int(target)) for source, target in links or ()]
        after = {source: target for source, target in steps if source >= count}
        for source, target in steps:
            if source < count <= target:
                points: list[float] = []
                while target >= count:
                    points += here[target]
                    target = after[target]
                bends.append([source, target, *points])
        left += width + 72.0
    return {"places": [[node, *place] for node, place in places.items()], "bends": bends}


if __name__ == "__main__":
    serve(sys.argv[1:], work)
