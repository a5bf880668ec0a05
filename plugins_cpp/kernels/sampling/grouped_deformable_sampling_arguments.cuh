// What the kernels of grouped deformable sampling are launched with.
#pragma once

#include "kernels/convert.cuh"
#include "kernels/sampling/grouped_deformable_sampling.cuh"

namespace trtsmith {

constexpr int kGroupedThreads = 128;

// Offset of the taps from an output's origin along one axis: start + tap * step.
struct TapSteps {
    float start;
    float step;
};

__device__ inline float tapShift(const TapSteps& steps, int tap, float offset, float scale) {
    return fmaf(scale, offset, fmaf(static_cast<float>(tap), steps.step, steps.start));
}

struct GroupedSamplingArguments {
    GroupedDeformableSamplingParams params;
    GroupedDeformableSamplingShape shape;
    int32_t taps;
    int32_t centre;        // tap that is left out, or -1
    int64_t offsetGroup;   // elements from one group's offsets to the next
    const void* weights;   // of group 0 of the first pixel
    int64_t weightsPixel;  // elements from one pixel's mask to the next
    int64_t weightsGroup;  // and from one group's
    TapSteps across;
    TapSteps down;
    int64_t originAcross;  // column of the middle of the kernel for output column 0
    int64_t originDown;
};

// What one group of one output pixel reads: its offsets and its part of the mask.
template <typename T>
const __device__ inline T* offsetsOf(const GroupedSamplingArguments& a, int64_t pixel, int64_t group) {
    return static_cast<const T*>(a.params.offset) + pixel * a.shape.offsetChannels + group * a.offsetGroup;
}

template <typename T>
const __device__ inline T* weightsOf(const GroupedSamplingArguments& a, int64_t pixel, int64_t group) {
    return static_cast<const T*>(a.weights) + pixel * a.weightsPixel + group * a.weightsGroup;
}

}  // namespace trtsmith
