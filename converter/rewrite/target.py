"""Describes the target TensorRT of a graph, and the faults that rules avoid."""

from __future__ import annotations

from dataclasses import dataclass

FLAVOURS = ("tensorrt", "tensorrt_rtx")

_TITLES = {"tensorrt": "TensorRT", "tensorrt_rtx": "TensorRT-RTX"}


@dataclass(frozen=True)
class Target:
    """The TensorRT and the GPU for which a graph is made.

    flavour:            "tensorrt" or "tensorrt_rtx".
    version:            such as (1, 7, 1, 116); () if it is not known: it then has every fault that its flavour ever had.
    compute_capability: of the GPU that runs the engine, such as (9, 0); None if it is not known, or if there are several.
    stock:              op_types of the plugins that it brings itself, and whose nodes are to be left to it.
    float_lstm:         whether an LSTM that quantizes its input and state as it runs is to be one in float32.
    """

    flavour: str = "tensorrt"
    version: tuple[int, ...] = ()
    compute_capability: tuple[int, int] | None = None
    stock: frozenset[str] = frozenset()
    float_lstm: bool = False

    @property
    def is_rtx(self) -> bool:
        return self.flavour == "tensorrt_rtx"

    @property
    def title(self) -> str:
        """The name for messages, such as "TensorRT-RTX 1.7.1.116" or "TensorRT" without a version."""
        return " ".join((_TITLES[self.flavour], ".".join(map(str, self.version)))).strip()


TENSORRT = Target("tensorrt")
RTX = Target("tensorrt_rtx")


@dataclass(frozen=True)
class Fault:
    """A fault of TensorRT: it computes a valid graph wrongly, or fails on it.

    flavour:  whose fault it is, one of FLAVOURS.
    seen:     versions in which it was seen, oldest first.
    what:     one clause that a user reads: "takes layout = 1 for layout = 0".
    evidence: how it was seen, and on what.
    fixed:    the first version that was seen without it; None where no such version is known. A fault that was seen in
        one version only stays on for later ones that could not be checked: engines of TensorRT-RTX 1.7.1 do not load on
        compute capability 9.0, where those of 1.6.1 were run.
    """

    flavour: str
    seen: tuple[str, ...]
    what: str
    evidence: str
    fixed: str | None = None

    def concerns(self, target: Target) -> bool:
        """Tells whether the rewrite for this target has to avoid the fault."""
        if target.flavour != self.flavour:
            return False
        return self.fixed is None or not target.version or target.version < version_of(self.fixed)

    def __str__(self) -> str:
        """The fault as a clause, such as "TensorRT-RTX 1.6.1 takes layout = 1 for layout = 0"."""
        return f"{_TITLES[self.flavour]} {' and '.join(self.seen)} {self.what}"


def version_of(text: str) -> tuple[int, ...]:
    """Parses a version: "10.13.3.9.post1" becomes (10, 13, 3, 9)."""
    numbers = []
    for part in text.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)
