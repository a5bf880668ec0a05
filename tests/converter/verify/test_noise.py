"""Bounds of elements and slices: what determines them, and what they accept."""

from __future__ import annotations

import numpy as np
import pytest

from trtsmith.converter.verify.noise import OWN, SIGMAS, UNITS, Excess, Noise, ScaledOutput, bounds, excess

RNG = np.random.default_rng(0)
CHANNELS = 10.0 ** -np.arange(6).reshape(6, 1)
"""Each channel is a tenth of the one before."""

Y = RNG.standard_normal((6, 500)) * CHANNELS
UNIT = 2.0**-11


def noise_of(scale: float = 1e-3) -> Noise:
    return Noise(UNIT, change=np.abs(scale * CHANNELS * RNG.standard_normal(Y.shape)))


def at(place: tuple[int, ...], by: float) -> np.ndarray:
    off = np.zeros_like(Y)
    off[place] = by
    return off


def test_right_values_are_within_their_bounds() -> None:
    for draw in range(20):
        error = np.abs(np.random.default_rng(draw).standard_normal(Y.shape)) * CHANNELS * 1.3e-3
        assert not excess(Y, error, noise_of())


@pytest.mark.parametrize("channel", range(6))
def test_each_channel_is_judged_by_its_own_noise(channel: int) -> None:
    deviation = 1e-3 * CHANNELS[channel, 0]
    assert not excess(Y, at((channel, 7), 8 * deviation), noise_of())
    found = excess(Y, at((channel, 7), 20 * deviation), noise_of())
    assert (found.count, found.worst) == (1, (channel, 7)) and found.allowed < 15 * deviation


def test_a_slice_is_off_where_no_element_is() -> None:
    off = np.zeros_like(Y)
    off[5] = 4e-3 * CHANNELS[5]
    found = excess(Y, off, noise_of())
    assert (found.count, found.axis, found.position, found.slices) == (0, 0, 5, 1)
    assert found.relative == pytest.approx(4e-3, rel=0.2) and found.relative > found.most


def test_nothing_measured_leaves_roundings_of_the_scale() -> None:
    scale = np.sqrt(np.mean(Y[3] ** 2))
    place = (3, int(np.argmin(np.abs(Y[3]))))
    assert not excess(Y, at(place, 0.9 * UNITS * UNIT * scale), Noise(UNIT))
    assert excess(Y, at(place, 1.1 * UNITS * UNIT * scale), Noise(UNIT)).count == 1
    assert not excess(Y, at((5, 1), 2e-7), Noise(2.0**-20, quantum=2.0**-22))


def test_copied_slices_do_not_dilute_the_noise_of_what_is_computed() -> None:
    """A cache of keys [batch, past and new, channels]: the past is exact, and the new key as uncertain as it is alone."""
    keys, noise = RNG.standard_normal((2, 64, 32)), np.zeros((2, 64, 32))
    noise[:, 63] = np.abs(1e-3 * RNG.standard_normal((2, 32)))
    off = np.zeros_like(keys)
    off[1, 63, 5] = 6e-3
    assert not excess(keys, off, Noise(UNIT / 100, change=noise))
    off[1, 63, 5] = 24e-3
    assert excess(keys, off, Noise(UNIT / 100, change=noise)).count == 1
    off[1, 63, 5], off[1, 8, 5] = 0.0, 1e-3
    assert excess(keys, off, Noise(UNIT / 100, change=noise)).worst == (1, 8, 5)


def test_as_many_steps_the_other_way_as_rounding_takes() -> None:
    """A threshold that two elements of 3000 cross: other ones may in the engine, and not many more."""
    change = np.full(Y.shape, 1e-4) * CHANNELS
    change[0, [3, 400]] = 1.0
    for count, beyond in ((1, 0), (4, 0), (5, 5)):
        off = np.zeros_like(Y)
        off[0, np.argsort(np.abs(Y[0]))[:count]] = 1.0
        assert excess(Y, off, Noise(UNIT, change=change)).count == beyond


def test_zeros_and_shapes_that_do_not_fit() -> None:
    zeros = np.zeros((2, 3))
    assert excess(zeros, zeros, Noise(UNIT)) == Excess(worst=(0, 0), allowed=0.0)
    assert excess(zeros, zeros + 1e-9, Noise(UNIT)).count == 6
    assert not excess(Y, np.zeros_like(Y), Noise(UNIT, change=np.ones(3)))
    infinite = Noise(UNIT, change=np.full(Y.shape, np.inf))
    assert excess(Y, at((0, 0), 1.0), infinite).count == 1


@pytest.mark.parametrize("change", [None, np.array(1e-3)])
def test_an_output_without_axes_has_one_element(change: np.ndarray | None) -> None:
    value = np.array(2.0)
    assert not excess(value, np.array(1e-4), Noise(UNIT, change=change))
    far = excess(value, np.array(0.5), Noise(UNIT, change=change))
    assert (far.count, far.worst) == (1, ())


def test_what_was_changed_at_the_element_itself_is_within_its_bound() -> None:
    noise = noise_of()
    assert noise.change is not None
    bound, outliers, largest = bounds(ScaledOutput(Y, noise))
    top = float(np.abs(Y).max())
    assert np.all(bound * top >= 0.999 * OWN * noise.change) and (outliers, largest) == (0, 0.0)
    wide = bounds(ScaledOutput(Y, noise.times(3)))[0]
    assert np.allclose(wide, 3 * bound, rtol=1e-4) and SIGMAS > 6


def test_chance_lends_no_slice_the_scale_of_another() -> None:
    """A row that flipped elsewhere may flip here; boxes in pixels lend scores below one nothing."""
    scale = np.array([[300.0], [0.5]])
    value = np.ones((2, 40)) * scale
    change = np.zeros((2, 40), np.float32)
    change[:, 3] = [3.0, 0.004]
    anywhere = Noise(2**-20, 0.0, change).anywhere(value).change
    assert anywhere is not None
    np.testing.assert_allclose(anywhere[0, [0, 3]], [3.0, 3.0], rtol=1e-6)
    np.testing.assert_allclose(anywhere[1, [0, 3]], [0.005, 0.005], rtol=1e-6)
    vector = Noise(2**-20, 0.0, np.array([0, 2, 1], np.float32)).anywhere(np.ones(3))
    np.testing.assert_array_equal(vector.change, [2, 2, 2])
    assert Noise(2**-20).anywhere(value).change is None
