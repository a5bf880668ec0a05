"""Reads the log of a build that died: the node that TensorRT worked on, and its last messages."""

from __future__ import annotations

import re

# How TensorRT's verbose log names the node that it takes in hand next; the worker keeps exactly these lines.
_BUILDER_LINES = (
    re.compile(r"Computing costs for (?P<node>.+)"),
    re.compile(r"Timing Runner: (?P<node>.+?) \("),
)
NODE_LINES = (
    re.compile(r"Static check for parsing node: (?P<node>.+)"),
    re.compile(r"Parsing node: (?P<node>.+)"),
    *_BUILDER_LINES,
)
# The banner that the parser prints for every model; it says nothing of a failure.
_BANNER = re.compile(
    r"INFO: (-{20,}|Input filename: |ONNX IR version: |Opset version: |Producer (name|version): |Domain: "
    r"|Model version: |Doc string: )"
)
_PARSED = re.compile(r"(?P<name>.*) \[(?P<op>[^\[\]]+)\]$")


def names_node(line: str) -> bool:
    return any(pattern.search(line) for pattern in NODE_LINES)


def says_nothing(line: str) -> bool:
    """Tells whether a log line is part of the banner that the parser prints for every model."""
    return bool(_BANNER.match(line)) or not line.partition(":")[2].strip()


def last_node(log: str, *, parsing: bool = True) -> str | None:
    """Returns the last node that the log names, as "node 'NAME' (OP)"; None if it names none.

    parsing: whether the process died while it read the model. Of one that died later the last node of the model is the
    last that was read, and says nothing.
    """
    for line in reversed(log.splitlines()):
        for pattern in NODE_LINES if parsing else _BUILDER_LINES:
            found = pattern.search(line)
            if found:
                return describe_node(found["node"])
    return None


def describe_node(text: str) -> str:
    """Turns "conv1 [Conv]" into "node 'conv1' (Conv)"; a fused group stays as TensorRT writes it."""
    parsed = _PARSED.match(text.strip())
    return f"node {parsed['name']!r} ({parsed['op']})" if parsed else text.strip()


def tail(log: str, lines: int = 12) -> str:
    """Returns the last informative lines of a log, indented for a message."""
    hidden = (_BANNER, *NODE_LINES)
    kept = [line for line in log.splitlines() if line.strip() and not any(p.search(line) for p in hidden)]
    return "\n".join(f"    {line[:300]}" for line in kept[-lines:])
