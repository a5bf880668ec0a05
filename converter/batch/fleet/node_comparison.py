"""Holds the machines of a cluster to the driver and to each other: a result must not depend on where it was made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from trtsmith.converter.batch.cache.machine_facts import MachineFacts
from trtsmith.converter.batch.fleet.node_facts import NodeFacts
from trtsmith.importers.problem import Problem

_SHOWN = 12
"""Digits of a digest: enough to tell two apart."""


def machine_problems(here: MachineFacts, nodes: Sequence[NodeFacts]) -> list[Problem]:
    """All that keeps these machines from doing one batch. here: the driver's."""
    silent = [facts for facts in nodes if facts.error]
    speaking = [facts for facts in nodes if not facts.error]
    problems = [
        Problem(
            f"the machine cannot say what is installed on it: {facts.error}",
            str(facts.node),
            f"trtsmith {here.versions.get('trtsmith', '')}, as here, in the Python that runs Ray there",
            "install the same trtsmith, with the extra `fleet`, on every machine of the cluster",
        )
        for facts in silent
    ]
    differing = [(facts, difference(here, facts.machine)) for facts in speaking]
    problems += [
        Problem(
            f"trtsmith is not the one that is here: {what}",
            _named(facts),
            "the same trtsmith, plugin libraries and operators from outside as on this machine",
            "install the same on every machine of the cluster",
        )
        for facts, what in differing
        if what
    ]
    equal = [facts for facts, what in differing if not what]
    return [*problems, *_unequal(equal)]


def difference(here: MachineFacts, there: MachineFacts) -> str:
    """What differs in trtsmith itself, of two machines; "" for nothing."""
    parts = (
        ("version", here.versions.get("trtsmith"), there.versions.get("trtsmith")),
        ("sources", here.rules, there.rules),
        ("plugin library", here.plugins, there.plugins),
        ("operators of TRTSMITH_OPS", here.operators, there.operators),
        ("operators of installed packages", here.packages, there.packages),
    )
    return "; ".join(
        f"{name} {_short(theirs)} there, {_short(ours)} here"
        for name, ours, theirs in parts
        if ours != theirs
    )


def _short(value: str | None) -> str:
    if not value:
        return "none" if value == "" else "that cannot be read"
    return value[:_SHOWN] if len(value) == 64 else value


def _unequal(nodes: Sequence[NodeFacts]) -> Iterator[Problem]:
    """A package of which the machines have several versions. TensorRT, other than TensorRT-RTX, is of use where there is a
    GPU: machines without one may lack it."""
    for name in sorted({name for facts in nodes for name in facts.machine.versions}):
        yield from _several(nodes, name, [facts.machine.versions.get(name) for facts in nodes])
    yield from _several(
        nodes, "tensorrt_rtx", [facts.machine.flavours.get("tensorrt_rtx") for facts in nodes]
    )
    building = [facts for facts in nodes if facts.gpu or "tensorrt" in facts.machine.flavours]
    yield from _several(building, "tensorrt", [facts.machine.flavours.get("tensorrt") for facts in building])


def _several(nodes: Sequence[NodeFacts], package: str, found: Sequence[str | None]) -> Iterator[Problem]:
    """found: the version on each machine."""
    versions = {facts.node.id: version or "none" for facts, version in zip(nodes, found, strict=True)}
    if len(set(versions.values())) < 2:
        return
    usual = Counter(versions.values()).most_common(1)[0][0]
    others = [facts for facts in nodes if versions[facts.node.id] != usual]
    shown = ", ".join(f"{versions[facts.node.id]} on {_named(facts)}" for facts in others)
    yield Problem(
        f"the machines have several versions of {package}: {shown}; {usual} on the others",
        ", ".join(_named(facts) for facts in others),
        "one version on all machines: a result must not depend on where it was made",
        f"install {package} {usual} there"
        if usual != "none"
        else f"install the same {package} on all machines",
    )


def _named(facts: NodeFacts) -> str:
    return f"{facts.host}, {facts.node}"
