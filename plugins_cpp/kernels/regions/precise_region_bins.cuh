// The weights of the pixels of a bin along one axis: how much of the bin each pixel's tent covers. In double, once for many
// channels: a small bin's weights are small differences.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>

namespace trtsmith {

// The pixels [begin, end) count. Those that are neither the first two nor the last two of the bin lie inside with all of
// their tent, and weigh 1. A bin reaches from pixel `lead` to pixel `tail`, which may lie outside of the map.
struct alignas(16) PreciseBin {
    float ends[4];  // weights of lead, lead + 1, tail - 1 and tail
    int32_t begin;
    int32_t end;
    int32_t lead;
    int32_t tail;

    __host__ __device__ float weight(int32_t pixel) const {
        const int32_t first = pixel - lead;
        const int32_t last = tail - pixel;
        return first < 2 ? ends[first] : (last < 2 ? ends[3 - last] : 1.0F);
    }
};

// The integral of max(0, 1 - |t|) from -1 to t, less a half.
__host__ __device__ inline double tentIntegral(double t) {
    t = fmin(fmax(t, -1.0), 1.0);
    return t - 0.5 * t * fabs(t);
}

__host__ __device__ inline double tentBetween(double from, double to, double pixel) {
    return tentIntegral(to - pixel) - tentIntegral(from - pixel);
}

// from < to, both finite. extent: pixels of the map.
__host__ __device__ inline PreciseBin preciseBin(double from, double to, int32_t extent) {
    constexpr double kFar = 4.0;  // pixels outside of the map: what lies there is not looked at
    const double low = floor(from);
    const double high = ceil(to);
    const double beyond = extent + kFar;
    PreciseBin bin{};
    for (int i = 0; i < 2; ++i) {
        bin.ends[i] = static_cast<float>(tentBetween(from, to, low + i));
        bin.ends[3 - i] = static_cast<float>(tentBetween(from, to, high - i));
    }
    bin.begin = static_cast<int32_t>(fmin(fmax(low, 0.0), beyond));
    bin.end = static_cast<int32_t>(fmax(fmin(high + 1.0, static_cast<double>(extent)), 0.0));
    bin.lead = static_cast<int32_t>(fmin(fmax(low, -kFar), beyond));
    bin.tail = static_cast<int32_t>(fmin(fmax(high, -kFar), beyond));
    return bin;
}

}  // namespace trtsmith
