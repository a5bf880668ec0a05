#include "kernels/selection/soft_box_selection.cuh"

#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"
#include "kernels/enumerate.cuh"
#include "kernels/order_key.cuh"

namespace trtsmith {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;

using Key = unsigned long long;  // the score's order, then the place from the end: the largest is the best, 0 is none

struct Corners {
    float lowX;
    float lowY;
    float highX;
    float highY;
    float area;
};

template <typename T>
__device__ Corners cornersOf(const SoftBoxSelectionParams& params, int64_t index) {
    const T* const given = static_cast<const T*>(params.boxes) + index * 4;
    const float a = toFloat(given[0]);
    const float b = toFloat(given[1]);
    const float c = toFloat(given[2]);
    const float d = toFloat(given[3]);
    Corners box{a >= c ? c : a, b >= d ? d : b, a >= c ? a : c, b >= d ? b : d, 0.0F};
    box.area = (box.highX - box.lowX + params.offset) * (box.highY - box.lowY + params.offset);
    if (a != a || b != b || c != c || d != d) {
        box.area = __int_as_float(0x7fffffff);
    }
    return box;
}

// What a score is multiplied by for a better box that was taken.
__device__ float weightOf(const SoftBoxSelectionParams& params, const Corners& taken, const Corners& box) {
    const float width = fminf(taken.highX, box.highX) - fmaxf(taken.lowX, box.lowX) + params.offset;
    const float height = fminf(taken.highY, box.highY) - fmaxf(taken.lowY, box.lowY) + params.offset;
    float share = 0.0F;
    if (width > 0.0F && height > 0.0F) {
        const float common = width * height;
        const float either = taken.area + box.area - common;
        share = either > 0.0F ? common / either : 0.0F;
        share = share == share ? share : 0.0F;
    }
    if (params.softness == Softness::kGaussian) {
        return expf(-(share * share) / params.sigma);
    }
    if (!(share >= params.overlap)) {
        return 1.0F;
    }
    return params.softness == Softness::kLinear ? 1.0F - share : 0.0F;
}

__device__ inline Key keyOf(float score, int64_t index) {
    const Key order = orderOfFloat(__float_as_uint(score), 0x80000000U, 0x7f800000U);
    return order << 32 | (0xffffffffU - static_cast<uint32_t>(index));
}

// scores: as they are lowered; a NaN is that of a box which was taken or dropped out.
template <typename T>
__global__ void __launch_bounds__(kThreads) softKernel(SoftBoxSelectionParams params, int64_t n, float* scores) {
    __shared__ Key keys[2][kWarps];
    const int thread = static_cast<int>(threadIdx.x);
    Key best = 0;
    for (int64_t i = thread; i < n; i += kThreads) {
        const float score = toFloat(static_cast<const T*>(params.scores)[i]);
        scores[i] = score;
        const Key key = score == score ? keyOf(score, i) : 0;
        best = key > best ? key : best;
    }
    int64_t count = 0;
    for (;; ++count) {
        // Two buffers: a warp that is ahead writes into the one that no warp behind it reads.
        Key* const shared = keys[count % 2];
        best = warpMax(best);
        if (thread % 32 == 0) {
            shared[thread / 32] = best;
        }
        __syncthreads();
        best = warpMax(shared[thread % 32]);
        if (best == 0) {
            break;
        }
        const int64_t taken = 0xffffffffU - static_cast<uint32_t>(best);
        const Corners box = cornersOf<T>(params, taken);
        best = 0;
        for (int64_t i = thread; i < n; i += kThreads) {
            const float score = scores[i];
            if (score != score) {
                continue;
            }
            if (i == taken) {
                T* const row = static_cast<T*>(params.dets) + count * 5;
                for (int k = 0; k < 4; ++k) {
                    row[k] = static_cast<const T*>(params.boxes)[taken * 4 + k];
                }
                row[4] = fromFloat<T>(score);
                params.inds[count] = taken;
                scores[i] = __int_as_float(0x7fffffff);
                continue;
            }
            const float lowered = score * weightOf(params, box, cornersOf<T>(params, i));
            const bool stays = lowered >= params.least;
            scores[i] = stays ? lowered : __int_as_float(0x7fffffff);
            const Key key = stays ? keyOf(lowered, i) : 0;
            best = key > best ? key : best;
        }
    }
    if (thread == 0) {
        *params.count = static_cast<int32_t>(count);
    }
}

}  // namespace

size_t softBoxSelectionWorkspace(int64_t boxes) {
    return boxes > 0 && boxes <= INT32_MAX ? static_cast<size_t>(boxes) * sizeof(float) : 0;
}

cudaError_t softBoxSelection(const SoftBoxSelectionParams& params, int64_t boxes, void* workspace,
                             cudaStream_t stream) {
    if (boxes < 0 || boxes > INT32_MAX || params.count == nullptr) {
        return cudaErrorInvalidValue;
    }
    if (boxes == 0) {
        return sumBefore(nullptr, 0, params.count, stream);  // the count is 0
    }
    if (workspace == nullptr || params.boxes == nullptr || params.scores == nullptr || params.dets == nullptr ||
        params.inds == nullptr) {
        return cudaErrorInvalidValue;
    }
    return withFloatType(params.type, [&params, boxes, workspace, stream](auto tag) {
        using T = typename decltype(tag)::type;
        return launch(softKernel<T>, 1, kThreads, 0, stream, params, boxes, static_cast<float*>(workspace));
    });
}

}  // namespace trtsmith
