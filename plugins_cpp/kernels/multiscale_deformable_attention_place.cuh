// Places and factors of a sample's four neighbours, without a branch: for levels with room for a cell.
//
// The cell is moved onto the level, and the factors are hat functions of the distance to each of its rows and columns. So
// all four can be read without asking, and those that are no neighbours of the position have the factor 0. The result is
// wrong only where 0 meets what is not finite, and then it is not finite either.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "multiscale_deformable_attention_cell.cuh"

namespace trtsmith {

// Added, rounded down, to a number below 2^22: no bit is left for a fraction, and the floor stands in the low bits.
constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23
constexpr uint32_t kRounderBits = 0x4b400000U;
constexpr int32_t kMaxSide = 1 << 21;

// A level as a lane needs it to place a sample.
struct alignas(16) TeamLevel {
    float width;
    float height;
    uint32_t columns;
    uint32_t origin;  // row of value of pixel (0, 0), less what the bits of kRounder contribute to an index
};

struct LevelBounds {
    int32_t height;
    int32_t width;
    uint64_t start;
};

__device__ inline LevelBounds loadBounds(const void* shapes, const void* starts, int level, bool wide) {
    return {levelSide(loadIndex(shapes, int64_t{level} * 2, wide)),
            levelSide(loadIndex(shapes, int64_t{level} * 2 + 1, wide)),
            static_cast<uint64_t>(loadIndex(starts, level, wide))};
}

// Every cell that placeSample can choose lies in the level and in value.
__device__ inline bool isPlain(const LevelBounds& level, int64_t keys) {
    const uint64_t rows = static_cast<uint64_t>(keys);
    const uint64_t area = static_cast<uint64_t>(level.height) * static_cast<uint64_t>(level.width);
    return level.height >= 2 && level.width >= 2 && level.height <= kMaxSide && level.width <= kMaxSide &&
           level.start <= rows && area <= rows - level.start;
}

__device__ inline TeamLevel teamLevel(const LevelBounds& level) {
    const uint32_t columns = static_cast<uint32_t>(level.width);
    return {static_cast<float>(level.width), static_cast<float>(level.height), columns,
            static_cast<uint32_t>(level.start) - kRounderBits * (columns + 1U)};
}

// The cell on one axis, as kRounder + its first row or column, and the factors of that and of the next.
struct AxisHats {
    float cell;
    float first;
    float second;
};

// The cell is cellAt's, moved onto the level: what is read does not depend on which of the two is at work. NaN and
// infinities fall outside: minimum, maximum and saturation take the number.
__device__ inline AxisHats axisHats(float location, float size) {
    const float floor = __fadd_rd(positionBelow(location, size), kRounder);
    const float cell = fminf(fmaxf(floor, kRounder), size + (kRounder - 2.0F));
    const float distance = fmaf(location, size, (kRounder - cell) - 0.5F);
    return {cell, __saturatef(1.0F - fabsf(distance)), __saturatef(1.0F - fabsf(distance - 1.0F))};
}

struct SampleHats {
    AxisHats x;
    AxisHats y;
};

struct PlacedSample {
    uint2 rows;      // the two left neighbours, in words of value
    float4 factors;  // top left, top right, bottom left, bottom right
};

// Indices are modulo 2^32: that of a row of value is below it, and kRounderBits cancel.
__device__ inline PlacedSample placeSample(const SampleHats& hats, float weight, const TeamLevel& level,
                                           uint32_t rowWords) {
    const AxisHats& x = hats.x;
    const AxisHats& y = hats.y;
    PlacedSample placed;
    placed.rows.x = (__float_as_uint(y.cell) * level.columns + (__float_as_uint(x.cell) + level.origin)) * rowWords;
    placed.rows.y = placed.rows.x + level.columns * rowWords;
    const float upper = weight * y.first;
    const float lower = weight * y.second;
    placed.factors = make_float4(upper * x.first, upper * x.second, lower * x.first, lower * x.second);
    return placed;
}

}  // namespace trtsmith
