// Place and factors of a sample on one axis, without a branch: for sides of 2 pixels and more.
//
// The two neighbours are moved onto the input, and their factors are hat functions of the distance to each. So both can
// be read without asking, and one that is no neighbour of the position has the factor 0. A result is wrong only where 0
// meets what is not finite, and then it is not finite either.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace trtsmith {

// Added, rounded down, to a number below 2^22: no bit is left for a fraction, and the floor stands in the low bits.
constexpr float kFloorShift = 12582912.0F;  // 1.5 * 2^23
constexpr uint32_t kFloorShiftBits = 0x4b400000U;

// No side, padding or kernel is larger where hats are used: what lies between any two places is below 2^22.
constexpr int64_t kMaxHatSide = int64_t{1} << 20;

// Where the first neighbour may be, relative to an origin in whole pixels: both ends plus kFloorShift.
struct HatRange {
    float first;
    float last;
};

__device__ inline HatRange hatRange(int32_t origin, int32_t size) {
    return {kFloorShift - static_cast<float>(origin), kFloorShift + static_cast<float>(size - 2 - origin)};
}

struct SampleAxis {
    uint32_t cell;  // of the first neighbour, relative to the origin, plus kFloorShiftBits; modulo 2^32
    float first;
    float second;
};

// Of the position origin + shift. NaN and infinities are outside: minimum, maximum and saturation take the number.
__device__ inline SampleAxis sampleAxis(float shift, const HatRange& range) {
    const float cell = fminf(fmaxf(__fadd_rd(shift, kFloorShift), range.first), range.last);
    const float distance = shift - (cell - kFloorShift);
    return {__float_as_uint(cell), __saturatef(1.0F - fabsf(distance)), __saturatef(1.0F - fabsf(distance - 1.0F))};
}

}  // namespace trtsmith
