"""The recurrence in Triton: a program goes through time for a block of channels, many steps at once."""

import triton
import triton.language as tl

from trtsmith.importers.triton_kernel import TritonKernel, Tuning


@triton.jit
def _after(kept, added, kept_later, added_later):
    """What two stretches of time do to a state, one after the other: state -> kept * state + added."""
    return kept * kept_later, added * kept_later + added_later


@triton.jit
def gated_recurrence(
    x,
    gate,
    initial,
    output,
    steps,
    channels,
    reverse,
    BLOCK_STEPS: tl.constexpr,
    BLOCK_CHANNELS: tl.constexpr,
):
    blocks = tl.cdiv(channels, BLOCK_CHANNELS)
    sequence = (tl.program_id(0) // blocks).to(tl.int64)
    channel = tl.program_id(0) % blocks * BLOCK_CHANNELS + tl.arange(0, BLOCK_CHANNELS)
    inside = channel < channels
    state = tl.zeros([BLOCK_CHANNELS], tl.float32)
    if initial is not None:
        state = tl.load(initial + sequence * channels + channel, mask=inside, other=0.0).to(tl.float32)
    row = tl.arange(0, BLOCK_STEPS)
    for start in range(0, steps, BLOCK_STEPS):
        step = start + row
        place = tl.where(reverse != 0, steps - 1 - step, step)
        at = (sequence * steps + place)[:, None] * channels + channel[None, :]
        here = (step < steps)[:, None] & inside[None, :]
        forget = tl.load(gate + at, mask=here, other=0.0).to(tl.float32)
        value = tl.load(x + at, mask=here, other=0.0).to(tl.float32)
        kept, added = tl.associative_scan((tl.sigmoid(forget), tl.sigmoid(-forget) * value), 0, _after)
        states = kept * state[None, :] + added
        tl.store(output + at, states.to(output.dtype.element_ty), mask=here)
        state = tl.sum(tl.where(row[:, None] == BLOCK_STEPS - 1, states, 0.0), axis=0)


TRITON = TritonKernel(
    kernel=gated_recurrence,
    arguments={"steps": "x.shape[1]", "channels": "x.shape[2]"},
    grid="x.shape[0] * ceil_div(channels, BLOCK_CHANNELS)",
    tunings=(
        Tuning({"BLOCK_STEPS": 128, "BLOCK_CHANNELS": 8}, when="x.shape[0] * channels < 2048"),
        Tuning({"BLOCK_STEPS": 64, "BLOCK_CHANNELS": 32}, dtypes=("float32",)),
        Tuning({"BLOCK_STEPS": 64, "BLOCK_CHANNELS": 64}),
    ),
    multiples_of_16=("channels",),
)
