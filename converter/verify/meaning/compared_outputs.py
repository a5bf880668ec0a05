"""Compares outputs, and results of selections by their meaning, in the reference's order."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from trtsmith.converter.model.model import Model
from trtsmith.converter.verify.allowance import (
    AS_BY_ROUNDING,
    FEW_ROWS,
    NO_LIMITS,
    OF_ROUNDING,
    PROVES,
    ROWS_LOST,
    Allowance,
    Limits,
    allowance,
    type_of,
)
from trtsmith.converter.verify.compare import Comparison, compare
from trtsmith.converter.verify.findings import Finding, finding
from trtsmith.converter.verify.meaning.indexed_boxes import indexed_outputs, with_detections
from trtsmith.converter.verify.meaning.matched_rows import (
    Matching,
    RowsExplained,
    RowTable,
    columns_of,
    corners,
    in_place,
    match,
    table,
)
from trtsmith.converter.verify.meaning.selections import Selection, find_selections
from trtsmith.converter.verify.meaning.ties import Aligned, Scores, decided, in_both
from trtsmith.converter.verify.noise import OWN, Noise, ScaledOutput, bounds
from trtsmith.converter.verify.tolerances import Tolerances
from trtsmith.importers.opdef import Arrays

_SHOWN = 3
"""Rows that a reason names."""


@dataclass(frozen=True)
class RoundedRuns:
    """Runs with rounded values, by which outputs are compared.

    precision: one of verify.rounding.PRECISIONS. plain: the original's outputs in onnxruntime, with the values that decide
    selections (`selections.watched`) where these are known; None where what is compared with stands for them.
    ways: the same with values rounded, once or several ways; empty where rounding was not measured.
    """

    precision: str
    plain: Arrays | None = None
    ways: Sequence[Arrays] = ()
    limits: Limits = NO_LIMITS


def compared(
    model: Model,
    wanted: Arrays,
    actual: Arrays,
    runs: RoundedRuns,
    tolerances: Tolerances | None = None,
    at: str = "",
) -> tuple[Allowance, tuple[Comparison, ...]]:
    """Returns the allowance and the comparisons, including those of excluded outputs.

    wanted: the outputs to compare with.
    """
    selections = find_selections(model, tolerances)
    outputs = {value.name for value in model.proto.graph.output}
    watched = {name for one in selections.values() for name in one.watched()}
    decide = watched - outputs
    wanted = {name: value for name, value in wanted.items() if name not in decide}
    plain, precision = wanted if runs.plain is None else runs.plain, runs.precision
    given = any(value is not plain.get(name) for name, value in wanted.items())
    indexed = indexed_outputs(selections, plain)
    as_indices = {name: wanted[name] for name in indexed if name in wanted}
    ways = [with_detections(one, indexed, {**plain, **one}) for one in runs.ways]
    wanted, actual = (with_detections(one, indexed, plain) for one in (wanted, actual))
    plain = with_detections(plain, indexed, plain)
    scores = _scores(model, plain, watched, runs)
    own = {n: v for n, v in plain.items() if n not in decide}
    ways = [{n: v for n, v in one.items() if n in own} for one in ways]
    places = _Placer(selections, wanted, scores)
    rounding = _RoundedRows.of(model, places, own, ways, runs)
    noise = rounding.measured.noise
    if given:
        rounding = _RoundedRows.of(model, _Placer(selections, own, scores), own, ways, runs)
    measured = replace(rounding.measured, noise=noise)
    placed = places.of(actual, noise)
    alike = rounding.furthest()
    left = dict(measured.left) | _doubtful(placed.told, alike)
    places.blame_labels(actual, placed)
    comparisons = compare(wanted, placed.arrays, tolerances, measured.allowed, at, noise)
    by_rounding = rounding.compared(tolerances, at)
    comparisons = tuple(_as_rounding_does(comparisons, by_rounding, left))
    lost = _rows_lost(places, alike, precision)
    told = tuple(
        _as_given(_with_told(c, placed.told.get(c.output)), as_indices.get(c.output)) for c in comparisons
    )
    by_meaning = {*placed.told, *(name for names in places.rows() for name in names)}
    asked = set() if tolerances is None else {n for n, kind in tolerances.kinds.items() if kind != "values"}
    told = tuple(_in_vain(c) if c.output in asked - by_meaning else c for c in told)
    left = left | lost | measured.excluded(None)
    return replace(measured, left=left | _settled(left, told, placed.told)), told


def _scores(model: Model, plain: Arrays, watched: set[str], runs: RoundedRuns) -> dict[str, Scores]:
    """The values that decide selections, with what rounding changes of each; where all runs have them."""
    deciding = {n: v for n, v in plain.items() if n in watched and all(n in one for one in runs.ways)}
    of_deciding = [{n: v for n, v in one.items() if n in deciding} for one in runs.ways]
    known = allowance(deciding, of_deciding, runs.precision, model.proto).noise
    return {
        n: Scores(v, element_bounds(v, known[n]))
        for n, v in deciding.items()
        if v.dtype.kind == "f" and v.size and n in known  # of scores in 8 bits nothing is known
    }


def _rows_lost(places: _Placer, alike: Mapping[str, Aligned], precision: str) -> dict[str, Finding]:
    """Outputs of which too few rows tell what rounding changes."""
    few = {names: one for names in places.rows() if (one := alike.get(names[0])) is not None and one.few}
    return {
        name: finding(ROWS_LOST, name, type=type_of(precision), matched=one.told)
        for names, one in few.items()
        for name in names
    }


def _settled(
    left: Mapping[str, Finding], told: Sequence[Comparison], placed: Mapping[str, Aligned]
) -> dict[str, Finding]:
    """What rounding decided of floats, with the tolerance that would settle it: infinite where none does."""
    off = {
        c.output: c.max if c.relative <= PROVES else inf
        for c in told
        if not _is_wrong(placed.get(c.output))
        and "int" not in c.dtype  # no number says how far apart indices may be
    }
    of_rounding = {n: why for n, why in left.items() if n in off and why.kind in OF_ROUNDING}
    return {n: replace(why, figures={**why.figures, "off": off[n]}) for n, why in of_rounding.items()}


def _is_wrong(found: Aligned | None) -> bool:
    """Whether rows differ in a way that no tolerance settles."""
    return found is not None and bool(found.wrong)


def _doubtful(told: dict[str, Aligned], alike: Mapping[str, Aligned]) -> dict[str, Finding]:
    """Selections that prove nothing: too few rows match, or rounding alone does as much. In `told` that is no error then."""
    left = {}
    for name, one in told.items():
        rounding = alike.get(name)
        if not one.wrong and one.few:
            left[name] = finding(FEW_ROWS, name, matched=one.told)
        elif one.wrong and rounding is not None and rounding.wrong and one.apart <= OWN * rounding.apart:
            left[name] = _as_by_rounding(name, one.wrong, rounding.wrong)
            told[name] = replace(one, wrong="")
    return left


def _as_by_rounding(output: str, reason: str, rounding: str) -> Finding:
    """rounding: what rounding alone does, which is said only if it is something else."""
    return finding(
        AS_BY_ROUNDING, output, reason=reason, rounding="" if rounding == reason else f": {rounding}"
    )


def _as_rounding_does(
    comparisons: Sequence[Comparison], by_rounding: Iterable[Comparison], left: dict[str, Finding]
) -> Iterator[Comparison]:
    """The comparisons, without disagreement where rounding alone is beyond the same bounds, at half as many elements.

    Such rows are other candidates, chosen for another class than in the reference; `left` gets these outputs.
    """
    known = {one.output: one for one in sorted(by_rounding, key=lambda one: one.beyond) if one.beyond}
    for one in comparisons:
        alike = known.get(one.output)
        if alike is None or not 0 < one.beyond <= OWN * alike.beyond or one.relative > OWN * alike.relative:
            yield one
            continue
        left.setdefault(one.output, _as_by_rounding(one.output, one.reason, alike.reason))
        yield replace(one, agrees=True, reason="")


def element_bounds(value: np.ndarray, noise: Noise | None) -> np.ndarray:
    """Returns the bound of each element; empty if unknown."""
    if noise is None or not value.size or not value.ndim:
        return np.zeros(value.shape)
    output = ScaledOutput(np.nan_to_num(value.astype(np.float64), posinf=0, neginf=0), noise)
    return np.asarray(bounds(output)[0] * output.top, np.float64)


def _with_told(one: Comparison, found: Aligned | None) -> Comparison:
    if found is None:
        return one
    nothing = "it has no detection" if not found.of else one.nothing if found.of == found.matched else ""
    unmatched = found.apart / found.of if found.of else 0.0
    told = replace(one, meaning=found.told, nothing=nothing, unmatched=unmatched)
    if not found.wrong:
        return told
    return replace(
        told, agrees=False, reason="; ".join([found.wrong, *([one.reason] if not one.agrees else [])])
    )


def _as_given(one: Comparison, indices: np.ndarray | None) -> Comparison:
    """The comparison of detections that an output has only as indices."""
    return one if indices is None else replace(one, dtype=str(indices.dtype), shape=indices.shape)


def _in_vain(one: Comparison) -> Comparison:
    """Says of an output that disagrees that what the user said about its meaning changed nothing."""
    why = f"{one.reason}, compared element by element: --compare finds no such rows or indices in its values"
    return one if one.agrees else replace(one, reason=why)


@dataclass
class _Placed:
    """Outputs as they are compared element by element, and what is said of those that a selection makes."""

    arrays: dict[str, np.ndarray]
    told: dict[str, Aligned] = field(default_factory=dict)


class _Placer:
    """Gives outputs the places of what is expected."""

    def __init__(self, found: Mapping[str, Selection], wanted: Arrays, scores: Mapping[str, Scores]) -> None:
        self._found = {name: one for name, one in found.items() if name in wanted}
        self.wanted, self._scores = wanted, scores
        self._groups = list(self._row_groups())

    def of(self, arrays: Arrays, noise: Mapping[str, Noise] | None = None) -> _Placed:
        """noise: of the outputs, by which rows are judged; without it only the places change."""
        placed = _Placed(dict(arrays))
        for name, one in self._found.items():
            have = arrays.get(name)
            if have is None or have.dtype != self.wanted[name].dtype:
                continue
            same = have.shape == self.wanted[name].shape and have.dtype.kind in "iu" and have.size
            scores = self._scores.get(one.scores)
            if one.kind in ("classes", "ranking") and same:
                placed.told[name] = decided(one, self.wanted[name], have, scores)
            elif one.kind == "set":
                placed.told[name] = in_both(
                    one, self.wanted[name], have, scores, self._scores.get(one.against)
                )
            if name in placed.told:
                placed.arrays[name] = placed.told[name].array
        for group in self._groups:
            group.place(arrays, noise or {}, placed)
        return placed

    def blame_labels(self, arrays: Arrays, placed: _Placed) -> None:
        """Of rows that do not match for their labels alone, says so of the output with the labels."""
        for group in self._groups:
            told = placed.told.get(group.names[0])
            if told is not None and told.wrong:
                group.blame_labels(arrays, placed)

    def rows(self) -> list[tuple[str, ...]]:
        """Outputs whose rows are matched together."""
        return [group.names for group in self._groups]

    def _row_groups(self) -> Iterator[_RowGroup]:
        groups: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
        for name, one in self._found.items():
            if one.kind in ("rows", "detections"):
                groups[one.order, one.boxes, one.scores].append(name)
        for (order, _, _), names in groups.items():
            group = _RowGroup.of(
                self._found[names[0]], names, self.wanted, self._scores, self._scores.get(order)
            )
            if group is not None:
                yield group


@dataclass(frozen=True)
class _RoundedRows:
    """What rounding does to the original's own outputs, in the places of those of `places`.

    Outputs that a user expects may be others than the original's: what tells these apart is no rounding.
    """

    places: _Placer
    measured: Allowance
    placed: Sequence[_Placed]

    @staticmethod
    def of(
        model: Model, places: _Placer, own: Arrays, ways: Sequence[Arrays], runs: RoundedRuns
    ) -> _RoundedRows:
        exact, small = places.of(own).arrays, [places.of(one).arrays for one in ways]
        measured = allowance(exact, small, runs.precision, model.proto, runs.limits)
        return _RoundedRows(places, measured, [places.of(one, measured.noise) for one in ways])

    def furthest(self) -> dict[str, Aligned]:
        """By output, the rounded run whose selection is furthest from the original's."""
        found = sorted(
            (n, bool(one.wrong), one.apart, i) for i, r in enumerate(self.placed) for n, one in r.told.items()
        )
        return {name: self.placed[i].told[name] for name, *_, i in found}  # the furthest away comes last

    def compared(self, tolerances: Tolerances | None, at: str) -> Iterator[Comparison]:
        """The comparisons of the rounded runs' rows."""
        names = [name for group in self.places.rows() for name in group]
        for one in self.placed:
            rows = {name: self.places.wanted[name] for name in names if name in one.arrays}
            yield from compare(rows, one.arrays, tolerances, self.measured.allowed, at, self.measured.noise)


def _row_shape(outputs: Sequence[np.ndarray]) -> tuple[int, ...]:
    """The dimensions that outputs of one selection share: (rows,) or (images, rows)."""
    floats = [array for array in outputs if array.dtype.kind == "f"]
    base = next((array for array in floats if array.ndim > 1), outputs[0])
    if base.ndim > 1 and base.shape[:1] not in {array.shape for array in floats if array.ndim == 1}:
        return base.shape[:-1]
    return base.shape[:1]


def _by_rows(order: Scores | None, shape: tuple[int, ...]) -> Scores | None:
    """The scores as [images, rows]; None where they are of others."""
    if order is None or order.values.size != math.prod(shape) or order.values.shape[-1] != shape[1]:
        return None
    return Scores(order.values.reshape(shape), order.bound.reshape(shape))


@dataclass(frozen=True)
class _RowGroup:
    """Outputs whose rows one selection chose, with their scores if these are an output. counts: those that say how many rows
    there are.
    """

    one: Selection
    names: tuple[str, ...]
    counts: tuple[str, ...]
    rank: int
    wanted: Arrays
    rows: RowTable
    order: Scores | None
    scores: Mapping[str, Scores]

    @staticmethod
    def of(
        one: Selection, names: list[str], wanted: Arrays, scores: Mapping[str, Scores], order: Scores | None
    ) -> _RowGroup | None:
        """None for unknown rows: of a distant selection whose order the output does not have."""
        prefix = _row_shape([wanted[n] for n in names])
        if not np.prod(prefix) or len(prefix) not in (1, 2):  # rows of an image, or of images
            return None
        ranked = [one.order] if one.order in wanted else []
        members = tuple(n for n in (*names, *ranked) if wanted[n].shape[: len(prefix)] == prefix)
        found = table(wanted, members, prefix)
        if found is None:
            return None
        whole = {n: wanted[n].dtype.kind in "iub" for n in members if wanted[n].ndim <= len(prefix) + 1}
        labels = [found.parts[n].start for n in whole if whole[n] and wanted[n].shape == prefix]
        found = replace(found, columns=columns_of(found, whole), labels=labels)
        order = _by_rows(order, found.values.shape[:2])
        known = found.columns is not None or order is not None
        if not known and one.kind == "rows" and (one.scores or one.limits or one.boxes):
            return None
        counts = tuple(n for n in names if n not in members and wanted[n].size == len(found.values))
        return _RowGroup(one, members, counts, len(prefix), wanted, found, order, scores)

    def place(self, arrays: Arrays, noise: Mapping[str, Noise], placed: _Placed) -> None:
        has = self._table(arrays)
        if has is None:
            return
        found = match(self.rows, has)
        explanation = self._explanation(noise)
        found = explanation.without_swapped(has, found) if noise else explanation.without_outliers(has, found)
        wrong, highest = explanation.unexplained(has, found)
        self._put(arrays, found, placed)
        counted = [np.array([len(t.filled(i)) for i in range(len(t.values))]) for t in (self.rows, has)]
        for name in self.counts:
            given = self.wanted[name], arrays[name]
            if all((a.ravel() == n).all() for a, n in zip(given, counted, strict=True)):
                placed.arrays[name] = self.wanted[name]
        placed.told[self.names[0]] = self._told(has, found, wrong, highest)

    def _put(self, arrays: Arrays, found: Matching, placed: _Placed) -> None:
        for name in self.names:
            if name == self.one.order:  # the best scores, which are compared in their order
                continue
            placed.arrays[name] = in_place(self.wanted[name], arrays[name], self.rows.values.shape[:2], found)

    def blame_labels(self, arrays: Arrays, placed: _Placed) -> None:
        """Matches rows whatever their labels, an output of their own; nothing changes unless all rows match so."""
        has, columns = self._table(arrays), self.rows.columns
        if has is None or columns is None or columns.label not in self.rows.labels:
            return
        unlabelled = replace(columns, label=-1)
        want, have = (replace(one, columns=unlabelled, labels=()) for one in (self.rows, has))
        found = match(want, have)
        pairs = [
            (self.rows.values[i, w, columns.label], has.values[i, h, columns.label], w)
            for i, w, h in found.pairs
        ]
        other = [pair for pair in pairs if pair[0] != pair[1]]
        if found.lost or found.extra or not other:
            return
        self._put(arrays, found, placed)
        placed.told[self.names[0]] = self._told(has, found, [], 0.0)
        name = next(n for n, part in self.rows.parts.items() if part.start == columns.label)
        expected, given, row = other[0]
        wrong = (
            f"{len(other)} of {len(pairs)} detections that match are of another class, the first in row {row}: {given:.0f}, "
            f"expected {expected:.0f}"
        )
        placed.told[name] = Aligned(self.wanted[name], "", wrong, len(pairs) - len(other), len(pairs))

    def _table(self, arrays: Arrays) -> RowTable | None:
        """The rows of these outputs; None where they have other types or sizes than is expected."""
        for name in self.names:
            have, want = arrays.get(name), self.wanted[name]
            if have is None or have.dtype != want.dtype or have.shape[self.rank :] != want.shape[self.rank :]:
                return None
        has = table(arrays, self.names, (0,) * self.rank)
        if has is None or has.values.shape[0] != self.rows.values.shape[0]:
            return None
        return replace(has, columns=self.rows.columns, labels=self.rows.labels)

    def _told(self, has: RowTable, found: Matching, wrong: list[str], highest: float) -> Aligned:
        noun = "rows" if self.rows.columns is None else "detections"
        lost, extra, pairs = len(found.lost), len(found.extra), len(found.pairs)
        told = f"{pairs} of {pairs + lost} {noun} match"
        if self.rows.columns is not None and pairs:
            told += self._errors(has, found)
        if lost or extra:
            told += f", unmatched: {lost} of the reference, {extra} of the result"
            if not wrong:
                told += ", all as rounding decides"
            if highest:
                told += f", with scores of at most {highest:.3g}"
        said = "; ".join(wrong[:_SHOWN]) + (
            f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        )
        words = f"{told}; rounding does not explain: {said}" if wrong else ""
        return Aligned(self.wanted[self.names[0]], told, words, pairs, pairs + max(lost, extra))

    def _errors(self, has: RowTable, found: Matching) -> str:
        columns = self.rows.columns
        assert columns is not None
        image, want, have = np.transpose(found.pairs)
        off = np.abs(self.rows.values[image, want] - has.values[image, have])
        return (
            f" (boxes within {off[:, columns.box : columns.box + 4].max():.2g}, scores within "
            f"{off[:, columns.score].max():.2g})"
        )

    def _explanation(self, noise: Mapping[str, Noise]) -> RowsExplained:
        blocks = [
            element_bounds(self.wanted[n], noise.get(n)).reshape(*self.rows.values.shape[:2], -1)
            for n in self.names
        ]
        pool = self.scores.get(self.one.scores)
        images = len(self.rows.values)
        candidates = None
        boxes = self.scores.get(self.one.boxes)
        if boxes is not None and pool is not None:
            flat = corners(boxes.values.reshape(-1, 4).astype(np.float64), self.one.centres)
            # [images, classes, boxes], or boxes first: the boxes of an image are those of each of its classes
            each = flat.reshape(boxes.values.shape[0], 1, -1, 4)
            if self.one.boxes_first:
                each = each.reshape(*pool.values.shape[:2], -1, 4)
            shape = np.broadcast_shapes(each.shape, (*pool.values.shape, 4))
            candidates = (
                np.broadcast_to(each, shape).reshape(-1, 4),
                Scores(pool.values.ravel(), pool.bound.ravel()),
            )
        return RowsExplained(
            self.one,
            self.rows,
            np.concatenate(blocks, axis=2),
            candidates,
            self.order,
            pool.values.reshape(images, -1) if pool is not None and pool.values.size % images == 0 else None,
        )
