"""Holds why agreement of an output proves little, and on what a comparison rests."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from shlex import quote


@dataclass(frozen=True)
class Doubt:
    """Why agreement of an output proves little for these inputs.

    why: a clause of which the output is the subject. fix: which inputs would do. equal_settles: whether outputs of two
    computations that are equal to the last bit agree all the same; not where part of the network did not run.
    """

    why: str
    fix: str = "give inputs for which it is not"
    equal_settles: bool = True

    def sentence(self, output: str) -> str:
        """For an output that is not comparable."""
        return (
            f"output {output!r} is not comparable: {self.why}; {self.fix} (--inputs FILE.npz), or accept that with "
            f"--not-compared {quote(output)}"
        )


@dataclass(frozen=True)
class Proof:
    """What agreement rests on.

    doubts: by output. constant: outputs that are the same for all inputs, as the graph shows. given: whether the user gave
    the inputs and the outputs to compare with.
    """

    doubts: Mapping[str, Doubt] = field(default_factory=dict)
    constant: Collection[str] = ()
    given: bool = False

    def settles(self, doubt: Doubt) -> bool:
        """Whether an output that is equal to the last bit agrees all the same."""
        return self.given or doubt.equal_settles
