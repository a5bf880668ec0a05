// The voxels around a point of a volume, and their shares. Also compiles as host code.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>

namespace trtsmith {

enum class VolumePadding : int32_t { kZeros, kBorder, kReflection };

// Along one axis: the lower voxel, the share of the upper one, and whether they exist (bits 0 and 1).
struct VolumePlace {
    int32_t low;
    float part;
    uint32_t exists;
};

// Where a coordinate from -1 to 1 lies along an axis of `size` voxels with middles at integers, after padding. Numerics of
// PyTorch's grid_sample; a NaN stays one with zeros beyond, and lies at 0 otherwise.
__host__ __device__ inline float paddedPosition(float given, int32_t size, VolumePadding padding, bool aligned) {
    const float extent = static_cast<float>(size);
    const float last = static_cast<float>(size - 1);
    float at = aligned ? (given + 1.0F) / 2.0F * last : ((given + 1.0F) * extent - 1.0F) / 2.0F;
    if (padding == VolumePadding::kZeros) {
        return at;
    }
    if (padding == VolumePadding::kReflection) {
        constexpr float kLargest = 3.402823466e38F;
        const float low = aligned ? 0.0F : -0.5F;
        const float span = aligned ? last : extent;
        if (!(fabsf(at) <= kLargest) || !(span > 0.0F)) {
            at = 0.0F;
        } else {
            const float distance = fabsf(at - low);
            const float turned = distance < span ? distance : fmodf(distance, 2.0F * span);
            at = low + (turned > span ? 2.0F * span - turned : turned);
        }
    }
    return fminf(fmaxf(at, 0.0F), last);  // of a NaN and a number both take the number
}

// Conversions to int have arguments in [-1, 2^31): comparisons fail for NaN.
template <bool kNearest>
__host__ __device__ inline VolumePlace volumePlace(float at, int32_t size) {
    VolumePlace place{0, 0.0F, 0U};
    if (kNearest) {
        const float whole = rintf(at);
        if (whole >= 0.0F && whole < static_cast<float>(size)) {
            place.low = static_cast<int32_t>(whole);
            place.exists = place.low < size ? 1U : 0U;
        }
    } else if (at > -1.0F && at < static_cast<float>(size)) {
        const float whole = floorf(at);
        place.low = static_cast<int32_t>(whole);
        place.part = at - whole;
        // Above 2^24 the comparison in float may let a position pass that rounds to the edge: both ends are checked.
        place.exists = (place.low >= 0 && place.low < size ? 1U : 0U) | (place.low < size - 1 ? 2U : 0U);
    }
    return place;
}

// Voxel i of 8 (of 1, where the nearest is taken) is upper along x, y, z for bits 0, 1, 2 of i.
template <bool kNearest>
struct VolumeCell {
    static constexpr int kCorners = kNearest ? 1 : 8;
    int64_t voxel;  // number of voxel 0, which need not exist
    float weights[kCorners];
    uint32_t exists;  // bit i: voxel i exists; only then may it be read
};

// The share of voxel i, from those of the upper ones along x, y and z.
__host__ __device__ inline float volumeWeight(int i, const float (&parts)[3]) {
    const float ofRow = ((i & 1) != 0 ? parts[0] : 1.0F - parts[0]) * ((i & 2) != 0 ? parts[1] : 1.0F - parts[1]);
    return ofRow * ((i & 4) != 0 ? parts[2] : 1.0F - parts[2]);
}

template <bool kNearest>
__host__ __device__ inline VolumeCell<kNearest> volumeCell(const VolumePlace& x, const VolumePlace& y,
                                                           const VolumePlace& z, int32_t height, int32_t width) {
    VolumeCell<kNearest> cell{};
    cell.voxel = (static_cast<int64_t>(z.low) * height + y.low) * width + x.low;
    for (int i = 0; i < VolumeCell<kNearest>::kCorners; ++i) {
        const int right = i & 1;
        const int below = (i >> 1) & 1;
        const int behind = i >> 2;
        cell.weights[i] = volumeWeight(i, {x.part, y.part, z.part});
        cell.exists |= ((x.exists >> right) & (y.exists >> below) & (z.exists >> behind) & 1U) << i;
    }
    return cell;
}

}  // namespace trtsmith
