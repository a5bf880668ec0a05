"""Runs many changed models in several processes, and keeps their findings."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from fuzzing.changed_model import changed_model
from fuzzing.fuzz_process import COMMAND, USUAL, FuzzProcess, Limits
from fuzzing.judged_trial import FuzzFinding, FuzzTrial, commands_for, run_trial
from fuzzing.smaller_model import smaller_model
from fuzzing.starting_models import StartingModel

SMALLER_S = 60.0
"""For making a model smaller that shows a finding."""


@dataclass(frozen=True)
class FuzzOptions:
    """The options of a campaign.

    seed, models, first: numbers of models, from which everything that is drawn follows; seconds: 0 for no end.
    guided:   models that reach new calls are changed further: finds more, and depends on the number of jobs.
    converts: every how many models one is converted, too; 0: none.
    keep:     where models that show a finding are written; None: nowhere.
    """

    seed: int = 0
    models: int = 1000
    first: int = 0
    jobs: int = 1
    seconds: float = 0.0
    guided: bool = True
    converts: int = 100
    keep: Path | None = None
    command: str = COMMAND
    limits: Limits = USUAL


@dataclass
class Found:
    """A finding with the first model that showed it. count: of models that did."""

    finding: FuzzFinding
    model: str
    count: int = 1


@dataclass
class Campaign:
    """All models of a campaign, and their results.

    codes: how many of each exit code. calls: different pairs of places. further: models that reached new calls.
    """

    options: FuzzOptions
    starting: Sequence[StartingModel]
    tell: Callable[[str], None]
    found: dict[tuple[str, str], Found] = field(default_factory=dict)
    models: int = 0
    codes: Counter[int | None] = field(default_factory=Counter)
    calls: set[int] = field(default_factory=set)
    further: list[StartingModel] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._texts = [model.data for model in self.starting]
        self._end = time.monotonic() + (self.options.seconds or float("inf"))

    def run(self, number: int) -> None:
        """Runs the models of one job."""
        options = self.options
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            process = FuzzProcess(Path(folder), options.limits, options.command, options.guided)
            try:
                for index in range(options.first + number, options.first + options.models, options.jobs):
                    if time.monotonic() > self._end:
                        break
                    self._one(process, index)
            finally:
                process.close()

    def _one(self, process: FuzzProcess, index: int) -> None:
        options = self.options
        draw = random.Random(f"{options.seed} {index}")
        base = draw.choice(self.further if self.further and draw.random() < 0.4 else self.starting)
        data = changed_model(base.data, self._texts, draw)
        commands = commands_for(
            draw, bool(options.converts) and index % options.converts == options.converts - 1
        )
        trial = run_trial(process, data, commands)
        self._count(trial, f"{index}, of {base.name}", data)
        for finding in trial.findings:
            if self._is_first(finding, f"{index}, of {base.name}"):
                self._keep(process, finding, data)

    def _count(self, trial: FuzzTrial, name: str, data: bytes) -> None:
        with self._lock:
            self.models += 1
            self.codes.update(trial.codes)
            new = not self.calls.issuperset(trial.calls)
            self.calls.update(trial.calls)
            if new and not trial.findings:
                self.further.append(StartingModel(name, data))
            if self.models % 200 == 0:
                self.tell(
                    f"{self.models} models, {len(self.found)} findings, {len(self.calls)} calls, "
                    f"{len(self.further)} kept"
                )

    def _is_first(self, finding: FuzzFinding, name: str) -> bool:
        with self._lock:
            known = self.found.get(finding.key)
            if known is not None:
                known.count += 1
                return False
            self.found[finding.key] = Found(finding, name)
        self.tell(f"model {name}: {finding.kind}: {finding.place}")
        return True

    def _keep(self, process: FuzzProcess, finding: FuzzFinding, data: bytes) -> None:
        """Saves the model, and a smaller one with the same finding."""
        keep = self.options.keep
        if keep is None:
            return
        words = list(finding.words)

        def shows(smaller: bytes) -> bool:
            return any(other.key == finding.key for other in run_trial(process, smaller, [words]).findings)

        seconds = min(SMALLER_S, max(0.0, self._end - time.monotonic())) if finding.kind != "hang" else 0.0
        number = list(self.found).index(finding.key)
        keep.mkdir(parents=True, exist_ok=True)
        stem = keep / f"{number:03d}-{finding.kind.partition(':')[0].replace(' ', '-')}"
        stem.with_suffix(".onnx").write_bytes(smaller_model(data, shows, seconds))
        text = f"{' '.join(finding.words)}\n{finding.kind}: {finding.place}\n\n{finding.said}"
        stem.with_suffix(".txt").write_text(text, encoding="utf-8", errors="backslashreplace")


def run_campaign(
    options: FuzzOptions, starting: Sequence[StartingModel], tell: Callable[[str], None] = lambda text: None
) -> Campaign:
    """Runs all models, or as many as the time allows."""
    campaign = Campaign(options, starting, tell)
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(campaign.run, range(options.jobs)))
    return campaign
