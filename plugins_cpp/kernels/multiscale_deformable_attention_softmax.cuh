// The softmax of attention logits, in fp32, for both kernels of multi-scale deformable attention.
//
// Exponents are of numbers that are not positive, where __expf is good: its relative error, |x| * 2^-24 and two units in
// the last place, meets a factor exp(x), so that a weight is wrong by less than 3e-7 of the largest. What is infinite or NaN
// goes the way of a softmax: NaN everywhere for a NaN, an infinite logit or nothing but -inf; else -inf is weight 0.
#pragma once

#include <cuda_runtime_api.h>

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "convert.cuh"

namespace trtsmith {

// One value of those of a team's lanes, the same to the bit in all of them: `combine` must not care for the order of two.
template <int kWords, typename Combine>
__device__ inline float teamReduce(float value, Combine combine) {
    // The bit of a lane's number that tells the warp's two teams apart is kWords: see TeamLane.
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        if (offset != kWords) {
            value = combine(value, __shfl_xor_sync(0xffffffffU, value, offset));
        }
    }
    return value;
}

// Over a team's samples, a round of one for each lane after the other. Sums are of weights that are too large by the same
// factor, which `finish` takes out. All lanes of the warp call both.
template <typename T, int kWords, bool kSingle>
struct TeamSoftmax {
    float top = -FLT_MAX;  // finite, so that what it is subtracted from stays -inf
    float total = 0.0F;    // of this lane's samples

    // The weight of this lane's sample, of which there is none where `valid` is false.
    template <int kVector>
    __device__ float next(T logit, bool valid, float (&sums)[kVector]) {
        const float own = valid ? toFloat(logit) : -INFINITY;
        const float raised =
            fmaxf(top, teamReduce<kWords>(own, [](float one, float other) { return fmaxf(one, other); }));
        const float weight = __expf(own - raised);
        if constexpr (!kSingle) {
            const float scale = __expf(top - raised);
#pragma unroll
            for (int k = 0; k < kVector; ++k) {
                sums[k] *= scale;
            }
            total *= scale;
            top = raised;
        }
        total += weight;
        return weight;
    }

    // The first kResults sums.
    template <int kResults, int kVector>
    __device__ void finish(float (&sums)[kVector]) const {
        const float inverse =
            __fdividef(1.0F, teamReduce<kWords>(total, [](float one, float other) { return one + other; }));
#pragma unroll
        for (int k = 0; k < kResults; ++k) {
            sums[k] *= inverse;
        }
    }
};

// Over the logits of one (batch, query, head), which one thread reads twice, and a third time for the weights.
template <typename T>
struct SiteSoftmax {
    float top = -INFINITY;
    float inverse;

    __device__ SiteSoftmax(const T* logits, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
            top = fmaxf(top, loadFloat(logits + i));
        }
        float total = 0.0F;
        for (int64_t i = 0; i < count; ++i) {
            total += __expf(loadFloat(logits + i) - top);
        }
        inverse = 1.0F / total;
    }

    __device__ float of(T logit) const { return __expf(toFloat(logit) - top) * inverse; }
};

}  // namespace trtsmith
