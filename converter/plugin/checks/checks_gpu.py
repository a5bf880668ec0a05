"""Checks kernels by running them."""

from __future__ import annotations

import numpy as np

from trtsmith.converter.plugin.checks.checks import CheckFailedError, CreatorUnderTest, NotTestableError
from trtsmith.converter.plugin.contract import GpuCase
from trtsmith.converter.plugin.host.enqueue import run_plugin
from trtsmith.converter.plugin.host.plugin_values import field_values

DIRECT = "kernel against its reference"
RESTORED = "kernel after a serialisation round trip"
GPU_CHECKS = (DIRECT, RESTORED)


def kernel(session: CreatorUnderTest, case: GpuCase, name: str) -> str | None:
    """Run the kernel of a new plugin, or of one that was restored, and compare it with the reference."""
    if not case.expected:
        raise NotTestableError("no reference outputs are known")
    fields = field_values(case.fields, session.creator.fields)
    with session.creator.create(fields) as plugin:
        if name == RESTORED:
            with session.creator.deserialize(plugin.serialize()) as restored:
                found = run_plugin(plugin, case.inputs, executor=restored, shape_values=case.shape_values)
        else:
            found = run_plugin(plugin, case.inputs, shape_values=case.shape_values)
    return compare(found, case)


def compare(found: list[np.ndarray], case: GpuCase) -> str:
    """Largest error over tolerance. Raises CheckFailedError naming the output, its error and its worst element."""
    if len(found) != len(case.expected):
        raise CheckFailedError(f"the kernel has {len(found)} outputs", f"{len(case.expected)}")
    notes = []
    for i, (got, wanted, allowed) in enumerate(zip(found, case.expected, case.tolerance, strict=True)):
        if got.shape != wanted.shape:
            raise CheckFailedError(f"output {i} has shape {got.shape}", f"{wanted.shape}")
        if not wanted.size:
            continue
        values = got.astype(np.float64)
        reference = wanted.astype(np.float64)
        strange = ~np.isfinite(values) & np.isfinite(reference)
        if strange.any():
            at = tuple(int(k) for k in np.argwhere(strange)[0])
            raise CheckFailedError(
                f"output {i} is {values[at]} at {at} and not finite in {int(strange.sum())} of {values.size} elements",
                f"{reference[at]} there (elements never written read as NaN)",
            )
        finite = np.isfinite(reference)
        if not np.array_equal(values[~finite], reference[~finite], equal_nan=True):
            raise CheckFailedError(
                f"output {i} differs where the reference is not finite", "the same infinities and NaNs"
            )
        difference = np.abs(np.where(finite, values - np.where(finite, reference, 0.0), 0.0))
        norm = float(np.linalg.norm(reference[finite]))
        error = float(np.linalg.norm(difference)) / norm if norm else float(difference.max())
        if not error <= allowed:
            at = tuple(int(k) for k in np.unravel_index(int(difference.argmax()), difference.shape))
            raise CheckFailedError(
                f"output {i} has relative error {error:.3g}; its worst element {at} is {values[at]}",
                f"at most {allowed:.3g}; that element is {reference[at]}",
                "mend the kernel",
            )
        notes.append(f"{error:.2g} of {allowed:.2g}")
    return "relative error " + ", ".join(notes) if notes else "empty outputs"
