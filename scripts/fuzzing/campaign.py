"""Runs many changed models, on several processes, and keeps what they find."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
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
    """What is run.

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
    """A finding with the model that showed it first. count: how many did; smaller: the model made smaller."""

    finding: FuzzFinding
    model: str
    data: bytes = field(repr=False)
    count: int = 1
    smaller: bytes = field(default=b"", repr=False)


@dataclass
class Campaign:
    """What came of all models.

    codes: how many of each exit code. calls: different pairs of places. kept: models that were changed further.
    """

    options: FuzzOptions
    found: dict[tuple[str, str], Found] = field(default_factory=dict)
    models: int = 0
    kept: int = 0
    codes: Counter[int | None] = field(default_factory=Counter)
    calls: set[int] = field(default_factory=set)


def run_campaign(
    options: FuzzOptions, starting: Sequence[StartingModel], tell: Callable[[str], None] = lambda text: None
) -> Campaign:
    """All models; ends early when the time is over."""
    campaign, lock = Campaign(options), threading.Lock()
    end = time.monotonic() + options.seconds if options.seconds else float("inf")
    errors: list[BaseException] = []

    def job(number: int) -> None:
        try:
            _Job(campaign, lock, starting, end, tell).run(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=job, args=(number,), daemon=True) for number in range(options.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return campaign


class _Job:
    """The models of one thread."""

    def __init__(
        self,
        campaign: Campaign,
        lock: threading.Lock,
        starting: Sequence[StartingModel],
        end: float,
        tell: Callable[[str], None],
    ) -> None:
        self._campaign, self._lock, self._end, self._tell = campaign, lock, end, tell
        self._starting = starting
        self._texts = [model.data for model in starting]
        self._further: list[StartingModel] = []

    def run(self, number: int) -> None:
        options = self._campaign.options
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
        options = self._campaign.options
        draw = random.Random(f"{options.seed} {index}")
        base = draw.choice(self._further if self._further and draw.random() < 0.4 else self._starting)
        data = changed_model(base.data, self._texts, draw)
        commands = commands_for(
            draw, bool(options.converts) and index % options.converts == options.converts - 1
        )
        trial = run_trial(process, data, commands)
        self._count(trial, f"{index}, of {base.name}", data)
        for finding in trial.findings:
            if self._is_first(finding, f"{index}, of {base.name}", data):
                self._keep(process, finding, data)

    def _count(self, trial: FuzzTrial, name: str, data: bytes) -> None:
        campaign = self._campaign
        with self._lock:
            campaign.models += 1
            campaign.codes.update(trial.codes)
            new = campaign.calls.isdisjoint(trial.calls) if trial.calls else False
            new = new or not campaign.calls.issuperset(trial.calls)
            campaign.calls.update(trial.calls)
            if new and not trial.findings:
                campaign.kept += 1
                self._further.append(StartingModel(name, data))
            if campaign.models % 200 == 0:
                self._tell(
                    f"{campaign.models} models, {len(campaign.found)} findings, {len(campaign.calls)} calls, "
                    f"{campaign.kept} kept"
                )

    def _is_first(self, finding: FuzzFinding, name: str, data: bytes) -> bool:
        with self._lock:
            known = self._campaign.found.get(finding.key)
            if known is not None:
                known.count += 1
                return False
            self._campaign.found[finding.key] = Found(finding, name, data)
        self._tell(f"model {name}: {finding.kind}: {finding.place}")
        return True

    def _keep(self, process: FuzzProcess, finding: FuzzFinding, data: bytes) -> None:
        """Save the model, and a smaller one."""
        keep = self._campaign.options.keep
        if keep is None:
            return
        words = list(finding.words)

        def shows(smaller: bytes) -> bool:
            return any(other.key == finding.key for other in run_trial(process, smaller, [words]).findings)

        found = self._campaign.found[finding.key]
        seconds = min(SMALLER_S, max(0.0, self._end - time.monotonic())) if finding.kind != "hang" else 0.0
        found.smaller = smaller_model(data, shows, seconds)
        number = list(self._campaign.found).index(finding.key)
        keep.mkdir(parents=True, exist_ok=True)
        stem = keep / f"{number:03d}-{finding.kind.partition(':')[0].replace(' ', '-')}"
        stem.with_suffix(".onnx").write_bytes(found.smaller)
        text = f"{' '.join(finding.words)}\n{finding.kind}: {finding.place}\n\n{finding.said}"
        stem.with_suffix(".txt").write_text(text, encoding="utf-8", errors="backslashreplace")
