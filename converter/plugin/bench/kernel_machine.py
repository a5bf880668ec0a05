"""Measures on one GPU for `trtsmith plugin bench`, with our kernels and those of others on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch

from trtsmith.converter.plugin.bench.kernel_baselines import measure_baselines
from trtsmith.converter.plugin.bench.kernel_figures import Ceilings, Measured, Unavailable
from trtsmith.converter.plugin.bench.kernel_torch import DEVICE, TorchSubject, tf32, time_runs
from trtsmith.converter.plugin.host.host import Creator, Host, PluginLibrary
from trtsmith.importers.opdef import Arrays, Case, OpDef


class TorchBench:
    """The first GPU and plugin libraries on it. compile_s: the most that torch.compile may take for one case."""

    def __init__(self, libraries: Sequence[PluginLibrary], compile_s: float) -> None:
        properties = torch.cuda.get_device_properties(0)
        self._libraries = libraries
        self.compile_s = compile_s
        self.l2_bytes = int(properties.L2_cache_size)
        # An eighth: the formulations in PyTorch need several times the tensors' size for what lies between.
        self.memory = int(properties.total_memory) // 8
        # The legacy stream: torchvision launches part of its work there, whatever the current stream is, and events on
        # another would not see it.
        self.stream = torch.cuda.default_stream()
        torch.backends.cudnn.benchmark = True  # cuDNN's best algorithm, not its first guess

    def creator(self, plugin: str) -> Creator:
        """The creator of that plugin, from the first library that has it. LookupError if none has."""
        having = [x for x in self._libraries if any(c.info.name == plugin for c in x.creators)]
        return (having or self._libraries)[0].creator(plugin)

    def ceilings(self) -> Ceilings:
        """A copy of 2 GiB, products of random matrices of 8192 x 8192, and no work at all."""
        names = ("float32", "tf32", "float16", "bfloat16")
        copy, products = _copy_rate(min(2 << 30, self.memory // 2)), {n: _product_rate(n) for n in names}
        rates = Ceilings(copy, products, time_runs(lambda _: None, 1, 50).median)
        torch.cuda.empty_cache()
        return rates

    def subject(self, op: OpDef, case: Case, generated: Arrays, dtype: str, sets: int) -> TorchSubject:
        return TorchSubject(self, op, case, generated, dtype, sets)

    def baselines(
        self, subject: TorchSubject, names: Sequence[str], count: int
    ) -> Mapping[str, Measured | Unavailable]:
        return measure_baselines(subject, names, count)


@contextmanager
def open_bench(libraries: Path | Sequence[Path], compile_s: float) -> Iterator[TorchBench]:
    """libraries: one, or several with plugins of different names."""
    host = Host()
    with ExitStack() as stack:
        paths = [libraries] if isinstance(libraries, Path) else libraries
        yield TorchBench([stack.enter_context(host.open(path)) for path in paths], compile_s)


def _copy_rate(size: int) -> float:
    """Bytes/s, read and written together."""
    source = torch.randint(0, 255, (size,), dtype=torch.uint8, device=DEVICE)
    target = torch.empty_like(source)
    return 2 * size / (time_runs(lambda _: target.copy_(source), 1, 20).median / 1e6)


def _product_rate(name: str, n: int = 8192) -> float:
    """FLOP/s."""
    dtype = torch.float32 if name == "tf32" else getattr(torch, name)
    a, b = (torch.randn(n, n, device=DEVICE, dtype=dtype) for _ in range(2))
    out = torch.empty_like(a)
    with tf32(name == "tf32"):
        times = time_runs(lambda _: torch.matmul(a, b, out=out), 1, 20)
    return 2 * n**3 / (times.median / 1e6)
