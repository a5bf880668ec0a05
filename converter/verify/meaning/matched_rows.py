"""Matches selected rows one to one, and finds the unmatched rows that rounding explains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trtsmith.converter.verify.meaning.selections import Selection
from trtsmith.converter.verify.meaning.ties import Scores
from trtsmith.converter.verify.noise import SIGMAS

SAME = 0.5
"""Rows match from this overlap of boxes on, as COCO has it; without boxes, up to this many standard deviations apart."""

_HERE = 1e-4
"""Boxes whose corners are as near, for the largest coordinate, are in one place: those without an area overlap nothing."""

_MOST = 100_000_000
"""Numbers that pairs of rows may have together; beyond them rows are left in their places."""


@dataclass(frozen=True)
class Columns:
    """The columns of a row by meaning. box: the first of four, corners or (`centres`) a centre and a size. -1: none."""

    box: int = -1
    score: int = -1
    label: int = -1
    centres: bool = False


LAYOUTS = (
    Columns(0, 4, 5),  # Ultralytics, mmdetection with classes
    Columns(1, 6, 5),  # image, box, class, score: YOLOv7
    Columns(3, 2, 1),  # image, class, score, box: SSD
    Columns(0, 4),  # mmdetection: classes apart
)
"""How detectors write a detection into one row."""

_ROTATED = 5
"""Numbers of a box with an angle; as many as those of a box with its score, where no other output has scores."""

_BOX = (4, _ROTATED)

_WIDEST = 64
"""Numbers of such a row, with masks' coefficients (38) or key points (57) behind it; more are no detection, but a mask."""


@dataclass(frozen=True)
class RowTable:
    """Rows of all images: [images, rows, numbers] in float64.

    parts: by output, its numbers of a row. columns: None where rows are no detections. labels: columns of whole numbers, in
    which rows that match are equal.
    """

    values: np.ndarray
    parts: Mapping[str, slice]
    columns: Columns | None = None
    labels: Sequence[int] = ()

    def box(self, image: int) -> np.ndarray:
        """Returns the corners, [rows, 4]."""
        assert self.columns is not None
        found = self.values[image][:, self.columns.box : self.columns.box + 4]
        return corners(found, self.columns.centres)

    def column(self, image: int, column: int) -> np.ndarray:
        return np.asarray(self.values[image][:, column])

    def filled(self, image: int) -> np.ndarray:
        """Returns indices of the rows that are not padding: not zeros or minus ones; for detections, rows with a score."""
        rows = self.values[image]
        if self.columns is not None and self.columns.score >= 0:
            return np.flatnonzero(rows[:, self.columns.score] > 0)
        return np.flatnonzero(~((rows == 0) | (rows == -1)).all(axis=1))


@dataclass
class Matching:
    """Matched rows. pairs: (image, expected row, actual row). lost, extra: (image, row) of rows that only one side has."""

    pairs: list[tuple[int, int, int]] = field(default_factory=list)
    lost: list[tuple[int, int]] = field(default_factory=list)
    extra: list[tuple[int, int]] = field(default_factory=list)


def table(arrays: Mapping[str, np.ndarray], names: Sequence[str], prefix: tuple[int, ...]) -> RowTable | None:
    """Arranges the outputs of one selection as rows. prefix: how many dimensions of each are (images, rows); None: another
    shape.
    """
    parts, blocks, start = {}, [], 0
    rank = len(prefix)
    rows: tuple[int, ...] | None = None
    for name in names:
        array = arrays[name]
        if array.ndim < rank or (rows is not None and array.shape[:rank] != rows):
            return None
        rows = array.shape[:rank]
        block = (
            array.astype(np.float64).reshape(int(np.prod(rows[:-1])), rows[-1], -1) if array.size else None
        )
        width = int(np.prod(array.shape[rank:]))
        blocks.append(np.zeros((int(np.prod(rows[:-1])), rows[-1], width)) if block is None else block)
        parts[name] = slice(start, start + width)
        start += width
    values = np.nan_to_num(np.concatenate(blocks, axis=2), nan=0.0, posinf=3e38, neginf=-3e38)
    return RowTable(values, parts)


def columns_of(one: RowTable, whole: Mapping[str, bool]) -> Columns | None:
    """Finds by the values where a detection's box, score and class are; None where rows are no detections.

    whole: by output that has one dimension for a row's numbers at most, whether it holds whole numbers.
    """
    found = [one.filled(image) for image in range(len(one.values))]
    rows = np.concatenate([one.values[i][at] for i, at in enumerate(found)])
    if not len(rows):
        rows = one.values.reshape(-1, one.values.shape[2])
    parts = {name: one.parts[name] for name in whole}
    boxes = next((n for n, part in parts.items() if _width(part) in _BOX and not whole[n]), None)
    columns = None if boxes is None else _separate_columns(rows, parts, whole, boxes)
    if columns is None and (boxes is None or _width(parts[boxes]) == _ROTATED):
        columns = _joint_columns(rows, parts, whole)
    return _with_form(rows, columns) if columns is not None else None


def _width(part: slice) -> int:
    width: int = part.stop - part.start
    return width


def _separate_columns(
    rows: np.ndarray, parts: Mapping[str, slice], whole: Mapping[str, bool], boxes: str
) -> Columns | None:
    """Of an output for each of boxes, scores and classes; None without scores."""
    singles = {n: part.start for n, part in parts.items() if _width(part) == 1}
    scores = next((n for n, at in singles.items() if not whole[n] and _is_score(rows[:, at])), None)
    label = next((at for n, at in singles.items() if n != scores and _is_label(rows[:, at])), -1)
    return Columns(parts[boxes].start, singles[scores], label) if scores is not None else None


def _joint_columns(rows: np.ndarray, parts: Mapping[str, slice], whole: Mapping[str, bool]) -> Columns | None:
    """Of one output with boxes and scores; the classes may be another."""
    for part in parts.values():
        layout = next((one for one in LAYOUTS if _has_layout(rows[:, part], one)), None)
        if layout is None:
            continue
        label = part.start + layout.label
        if layout.label < 0:
            label = next((other.start for n, other in parts.items() if whole[n] and _width(other) == 1), -1)
        return Columns(part.start + layout.box, part.start + layout.score, label)
    return None


def _has_layout(rows: np.ndarray, layout: Columns) -> bool:
    width = rows.shape[1]
    if not max(layout.score, layout.label, layout.box + 3) < width <= _WIDEST:
        return False
    scores = rows[:, layout.score]
    if not _is_score(scores) or (rows.any() and not scores.any()):
        return False
    return _is_label(rows[:, layout.label]) if layout.label >= 0 else width == 5


def _is_score(column: np.ndarray) -> bool:
    return bool(((column >= 0) & (column <= 1.001)).all()) and bool(
        (column % 1 != 0).any() or not column.any()
    )


def _is_label(column: np.ndarray) -> bool:
    return bool(((column % 1 == 0) & (column >= -1)).all())


def _with_form(rows: np.ndarray, columns: Columns) -> Columns:
    """Two corners, if each second one is behind the first; else a centre and a size."""
    box = rows[:, columns.box : columns.box + 4]
    centres = bool((box[:, 2:] < box[:, :2]).any())
    return Columns(columns.box, columns.score, columns.label, centres)


def corners(boxes: np.ndarray, centres: bool) -> np.ndarray:
    """Returns the low and the high corner of boxes [n, 4]."""
    if centres:
        half = boxes[:, 2:] / 2
        return np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], axis=1)
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    return np.concatenate([low, high], axis=1)


def overlaps(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Computes the intersection over union of every box of one with every box of the other, [n, m]."""
    low = np.maximum(one[:, None, :2], other[None, :, :2])
    high = np.minimum(one[:, None, 2:], other[None, :, 2:])
    common = np.clip(high - low, 0, None).prod(axis=2)
    areas = [(b[:, 2:] - b[:, :2]).prod(axis=1) for b in (one, other)]
    either = areas[0][:, None] + areas[1][None, :] - common
    return np.asarray(np.divide(common, either, out=np.zeros_like(common), where=either > 0))


def match(expected: RowTable, actual: RowTable) -> Matching:
    """Matches the most similar rows first, each once; equal ones by place. Detections of different classes never
    match.
    """
    found = Matching()
    for image in range(len(expected.values)):
        wants, has = expected.filled(image), actual.filled(image)
        alike = _alike(expected, actual, image, wants, has)
        places = np.argwhere(alike > 0)
        same = wants[places[:, 0]] == has[places[:, 1]]
        order = np.lexsort((~same, -alike[tuple(places.T)]))
        taken: tuple[set[int], set[int]] = (set(), set())
        for e, a in places[order].tolist():
            if e not in taken[0] and a not in taken[1]:
                taken[0].add(e)
                taken[1].add(a)
                found.pairs.append((image, int(wants[e]), int(has[a])))
        found.lost += [(image, int(row)) for e, row in enumerate(wants) if e not in taken[0]]
        found.extra += [(image, int(row)) for a, row in enumerate(has) if a not in taken[1]]
    return found


def _alike(
    expected: RowTable, actual: RowTable, image: int, wants: np.ndarray, has: np.ndarray
) -> np.ndarray:
    """How alike rows are, [wanted, had]; 0 where they are not the same."""
    columns = expected.columns
    if len(wants) * len(has) * expected.values.shape[2] > _MOST:
        return np.asarray(wants[:, None] == has[None, :], np.float64)
    one, other = expected.values[image][wants], actual.values[image][has]
    scale = one.std(axis=0) if len(one) else np.ones(one.shape[1])
    scale = np.where(scale > 0, scale, 1.0)
    away = np.array([np.sqrt(np.square((other - row) / scale).mean(axis=1)) for row in one])
    near = 1 / (1 + away.reshape(len(one), len(other)))
    label = [columns.label] if columns is not None and columns.label >= 0 else []
    for column in (*label, *expected.labels):
        near[one[:, column][:, None] != other[:, column][None, :]] = 0.0
    if columns is None:
        return np.where(near >= 1 / (1 + SAME), near, 0.0)
    boxes, others = expected.box(image)[wants], actual.box(image)[has]
    here = np.abs(boxes[:, None] - others[None]).max(axis=2) <= _HERE * np.abs(boxes).max(initial=0)
    alike = np.where(here, 1.0, overlaps(boxes, others))
    return np.where(
        (alike >= SAME) & (near > 0), alike + 1e-3 * near, 0.0
    )  # of boxes in one place the nearest score


def in_place(expected: np.ndarray, actual: np.ndarray, shape: tuple[int, ...], found: Matching) -> np.ndarray:
    """Returns the expected output with each matched row replaced by its actual row.

    shape: (images, rows) of what is expected.
    """
    placed = np.array(expected)
    if found.pairs:
        image, want, have = np.transpose(found.pairs)
        width = placed.size // (shape[0] * shape[1])
        rows = actual.reshape(shape[0], actual.size // (shape[0] * width), width)
        placed.reshape(*shape, width)[image, want] = rows[image, have]
    return placed


@dataclass(frozen=True)
class RowsExplained:
    """The effect of rounding on the reference's rows.

    bound: what each number may be off by, as `expected.values`. candidates: boxes that were chosen from, as corners [n, 4],
    with their scores. order: scores of the rows [images, rows] as they were ranked. pool: all scores that were, [images, n].
    """

    one: Selection
    expected: RowTable
    bound: np.ndarray
    candidates: tuple[np.ndarray, Scores] | None = None
    order: Scores | None = None
    pool: np.ndarray | None = None

    def unexplained(self, actual: RowTable, found: Matching) -> tuple[list[str], float]:
        """Lists rows that rounding does not explain, a few words each, and the highest score of the explained ones."""
        wrong, highest = [], 0.0
        lost, extra = (
            {image: [row for i, row in rows if i == image] for image, _ in rows}
            for rows in (found.lost, found.extra)
        )
        for image in sorted({*lost, *extra}):
            sides = lost.get(image, []), extra.get(image, [])
            for row in sides[0]:
                if not self._may_go(actual, image, row, sides[1]):
                    wrong.append(f"row {row} is lost ({self._words(self.expected, image, row)})")
                highest = max(highest, self._score(self.expected, image, row))
            for row in sides[1]:
                if not self._may_come(actual, image, row, sides[0]):
                    wrong.append(f"row {row} has no counterpart ({self._words(actual, image, row)})")
                highest = max(highest, self._score(actual, image, row))
        return wrong + list(self._out_of_order(found)), highest

    def without_swapped(self, actual: RowTable, found: Matching) -> Matching:
        """Splits pairs of different rows, of which rounding of scores chose one in the other's place, into lost and extra
        rows.
        """
        if self.order is None and (self.expected.columns is None or self.candidates is None):
            return found
        pairs: list[tuple[int, int, int]] = []
        kept = Matching(pairs, list(found.lost), list(found.extra))
        for image, want, have in found.pairs:
            off = np.abs(actual.values[image, have] - self.expected.values[image, want])
            swapped = bool((off > self.bound[image, want]).any())
            if (
                swapped
                and self._may_go(actual, image, want, [have])
                and self._may_come(actual, image, have, [want])
            ):
                kept.lost.append((image, want))
                kept.extra.append((image, have))
            else:
                pairs.append((image, want, have))
        return kept

    def without_outliers(self, actual: RowTable, found: Matching) -> Matching:
        """Drops pairs whose boxes are much further off than others', while rounding is not measured yet."""
        columns = self.expected.columns
        if columns is None or not found.pairs:
            return found
        image, want, have = np.transpose(found.pairs)
        box = slice(columns.box, columns.box + 4)
        off = np.abs(self.expected.values[image, want, box] - actual.values[image, have, box]).max(axis=1)
        kept = off <= SIGMAS * np.median(off)
        return Matching([pair for pair, keep in zip(found.pairs, kept.tolist(), strict=True) if keep])

    def _score(self, side: RowTable, image: int, row: int) -> float:
        columns = side.columns
        return 0.0 if columns is None or columns.score < 0 else float(side.values[image, row, columns.score])

    def _words(self, side: RowTable, image: int, row: int) -> str:
        columns = side.columns
        if columns is None:
            return f"image {image}" if len(side.values) > 1 else "no other is like it"
        told = f"score {self._score(side, image, row):.4g}"
        return told + (f", class {side.values[image, row, columns.label]:.0f}" if columns.label >= 0 else "")

    def _room(self) -> float:
        """By how much a score is off at most: that of a row which the reference lacks."""
        columns = self.expected.columns
        return float(self.bound[:, :, columns.score].max(initial=0.0)) if columns is not None else 0.0

    def _at_limit(self, score: float) -> bool:
        return any(abs(score - limit) <= self._room() for limit in self.one.limits)

    def _at_cut(self, image: int, score: float, most: float) -> bool:
        """Whether rounding decides if a row of this score is chosen, as the next row is as good."""
        if self.order is None or self.pool is None:
            return False
        pool, chosen = np.sort(self.pool[image])[::-1], self.order.values.shape[1]
        return bool(len(pool) > chosen and pool[chosen] >= score - 2 * most)

    def _pushed_out(self, side: RowTable, image: int, row: np.ndarray, others: list[int]) -> bool:
        """Whether a side is full, of rows that are as good as this one: others took its place."""
        full = self._full(side, image, row)
        if not others or not len(full) or side.columns is None:
            return False
        return bool(row[side.columns.score] <= full[:, side.columns.score].min() + 2 * self._room())

    def _full(self, side: RowTable, image: int, row: np.ndarray) -> np.ndarray:
        """The rows of a side, or of this one's class, where there may be no more; none where there may."""
        rows: np.ndarray = side.values[image][side.filled(image)]
        label = -1 if side.columns is None else side.columns.label
        of_class: np.ndarray = rows[rows[:, label] == row[label]] if label >= 0 else rows[:0]
        if self.one.most and len(of_class) == self.one.most:
            return of_class
        return rows if len(rows) == side.values.shape[1] == self.expected.values.shape[1] else rows[:0]

    def _may_go(self, actual: RowTable, image: int, row: int, extra: list[int]) -> bool:
        """Whether rounding takes an expected row away."""
        if self.order is not None:
            most = float(self._order_bound(image).max())
            return self._at_cut(image, float(self.order.values[image, row]), most)
        columns = self.expected.columns
        if columns is None:
            return False
        score = self._score(self.expected, image, row)
        if self._at_limit(score) or self._pushed_out(actual, image, self.expected.values[image, row], extra):
            return True
        limit, room = self._limit(image, row), score - 2 * self._room()
        close = limit + 2 * self._loose(image, row)  # as close to the limit of overlaps as rounding gets
        everyone = [int(i) for i in actual.filled(image)]
        return any(
            share >= limit
            and (other in extra or share <= close)
            and self._score(actual, image, other) >= room
            for other, share in self._near(actual, image, everyone, self.expected, row)
        )

    def _may_come(self, actual: RowTable, image: int, row: int, lost: list[int]) -> bool:
        """Whether rounding brings this actual row: a candidate, which nothing suppresses any more."""
        if self.order is not None:
            return bool(lost)
        if actual.columns is None or self.candidates is None:
            return actual.columns is not None and self._at_limit(self._score(actual, image, row))
        score, room = self._score(actual, image, row), self._room()
        boxes, scores = self.candidates
        near = np.abs(scores.values - score) <= room
        if not near.any():
            return False
        if self._at_limit(score) or self._pushed_out(self.expected, image, actual.values[image, row], lost):
            return True
        everyone = [int(i) for i in self.expected.filled(image)]
        for other, share in self._near(self.expected, image, everyone, actual, row):
            limit, loose = self._limit(image, other), self._loose(image, other)
            if share < limit or (other not in lost and share > limit + 2 * loose):
                continue
            # overlaps are the same however boxes are moved and scaled between candidates and output
            anchor = int(np.argmin(np.abs(scores.values - self._score(self.expected, image, other))))
            shares = overlaps(boxes[near], boxes[anchor : anchor + 1])[:, 0]
            if bool((np.abs(shares - share) <= loose).any()):
                return True
        return False

    def _loose(self, image: int, row: int) -> float:
        """By how much an overlap with an expected row is off at most."""
        columns, box = self.expected.columns, self.expected.box(image)[row]
        assert columns is not None
        bound = float(self.bound[image, row, columns.box : columns.box + 4].max())
        return max(4 * bound / max(float((box[2:] - box[:2]).min()), 1e-9), 1e-3)

    def _limit(self, image: int, row: int) -> float:
        """The overlap from which a row suppresses another, within rounding; None where the graph does not say."""
        return 2.0 if self.one.overlap is None else self.one.overlap - self._loose(image, row)

    def _near(
        self, side: RowTable, image: int, rows: list[int], other: RowTable, row: int
    ) -> Iterator[tuple[int, float]]:
        """Of these rows those of the other's class, with their overlap."""
        columns = side.columns
        assert columns is not None
        if not rows:
            return
        shares = overlaps(side.box(image)[rows], other.box(image)[row : row + 1])[:, 0]
        for index, share in zip(rows, shares.tolist(), strict=True):
            mine, its = side.values[image, index], other.values[image, row]
            if columns.label < 0 or mine[columns.label] == its[columns.label]:
                yield index, share

    def _out_of_order(self, found: Matching) -> Iterator[str]:
        """Rows that changed places though their scores are further apart than rounding explains."""
        for image in range(len(self.expected.values)):
            ranked = self._ranked(image)
            if ranked is None:
                continue
            scores, bound = ranked
            moved = np.array(sorted((a, e) for i, e, a in found.pairs if i == image)).reshape(-1, 2)[:, 1]
            if not len(moved):
                continue
            least = np.minimum.accumulate(scores[moved] + bound[moved])  # of those before it
            late = np.flatnonzero(scores[moved] - bound[moved] > least)
            if len(late):
                row = int(moved[late[0]])
                yield f"row {row} stands behind {len(late)} or more of lower scores (its own: {scores[row]:.4g})"

    def _order_bound(self, image: int) -> np.ndarray:
        """What the score of each row may be off by. Sorted scores differ by less than the score of one row does."""
        assert self.order is not None
        bound, columns = np.asarray(self.order.bound[image]), self.expected.columns
        return bound if columns is None else np.maximum(bound, self.bound[image][:, columns.score])

    def _ranked(self, image: int) -> tuple[np.ndarray, np.ndarray] | None:
        """The scores that rows are in order of, and what they may be off by; None where they are in no order."""
        if self.order is not None:
            scores, bound = self.order.values[image], self._order_bound(image)
        elif self.expected.columns is not None:
            column = self.expected.columns.score
            scores, bound = self.expected.column(image, column), self.bound[image][:, column]
        else:
            return None
        kept = scores[self.expected.filled(image)]
        return (scores, bound) if bool((np.diff(kept) <= 0).all()) else None
