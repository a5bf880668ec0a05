"""Run every small case once in this process, for compute-sanitizer: memory exactly as large as the tensors."""

from __future__ import annotations

from converter.libraries import plugin_library
from converter.plugin.cases import gpu_cases
from converter.plugin.checks import CheckFailedError
from converter.plugin.checks_gpu import compare
from converter.plugin.host import Host
from converter.plugin.native import PluginError
from gpucheck.raw import ExactMemory
from importers.registry import OPS

FAULTS = ("overflow", "unwritten")
"""Planted faults: outputs 16 bytes too small; inputs that nobody wrote."""

RAN = "kernels ran"


def run_kernels(which: str) -> int:
    """which: "small", or one of FAULTS to run one case with that fault.

    Returns how many results were wrong, 0 for FAULTS: compute-sanitizer gives its own exit code only to a program that
    ends well.
    """
    host = Host()
    memory = ExactMemory(
        host.native, missing=16 if which == "overflow" else 0, skip_copies=which == "unwritten"
    )
    ran = wrong = 0
    with host.open(plugin_library()) as library:
        for op in OPS:
            for case in gpu_cases(op.name, large=False):
                if which in FAULTS and (ran or case.expected[0].size < 100):
                    continue
                try:
                    with library.creator(op.name).create(dict(case.fields)) as plugin:
                        found = memory.run(plugin, case.inputs)
                    if which == "small":
                        compare(found, case)
                except CheckFailedError as failure:
                    wrong += 1
                    print(f"{op.name} {case.name}: {failure.what}", flush=True)
                except PluginError as error:
                    wrong += 1
                    print(f"{op.name} {case.name}: {error.problems[0].what}", flush=True)
                ran += 1
    print(f"{ran} {RAN}, {wrong} wrong", flush=True)
    return 0 if which in FAULTS else wrong
