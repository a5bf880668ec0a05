#include "local_peaks.cuh"

#include "convert.cuh"
#include "dispatch.cuh"
#include "enumerate.cuh"

namespace trtsmith {
namespace {

template <typename T>
struct IsPeak {
    const T* x;
    const T* least;
    int64_t n;
    bool plateaus;

    __device__ bool above(float value, int64_t at) const {
        if (at < 0 || at >= n) {
            return true;
        }
        const float other = toFloat(x[at]);
        return plateaus ? value >= other : value > other;
    }

    __device__ bool operator()(int64_t at) const {
        const float value = toFloat(x[at]);
        const bool enough = least != nullptr ? value > toFloat(*least) : value > -INFINITY;
        return enough && above(value, at - 1) && above(value, at + 1);
    }
};

struct WritePosition {
    int64_t* positions;

    __device__ void operator()(int64_t at, bool flagged, int64_t before) const {
        if (flagged) {
            positions[before] = at;
        }
    }
};

}  // namespace

size_t localPeaksWorkspace(int64_t n) { return enumerateWorkspace(n); }

cudaError_t localPeaks(const LocalPeaksParams& params, int64_t n, void* workspace, cudaStream_t stream) {
    return withFloatType(params.type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const IsPeak<T> isPeak{static_cast<const T*>(params.x), static_cast<const T*>(params.least), n,
                               params.plateaus};
        return enumerate(isPeak, n, params.count, WritePosition{params.positions}, workspace, stream);
    });
}

}  // namespace trtsmith
