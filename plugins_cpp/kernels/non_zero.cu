#include "non_zero.cuh"

#include "dispatch.cuh"
#include "enumerate.cuh"
#include "is_set.cuh"

namespace trtsmith {
namespace {

// Coordinates of one position, one division an axis: of 32 bits, which is several times as fast as of 64.
struct WriteCoordinates {
    NonZeroShape shape;
    int64_t* positions;
    const int32_t* count;

    __device__ void operator()(int64_t at, bool flagged, int64_t before) const {
        if (!flagged) {
            return;
        }
        const int64_t row = *count;
        auto rest = static_cast<uint32_t>(at);
#pragma unroll  // so that the sizes are indexed by constants and stay in constant memory
        for (int32_t axis = kNonZeroMaxRank - 1; axis > 0; --axis) {
            if (axis >= shape.rank) {
                continue;
            }
            const auto size = static_cast<uint32_t>(shape.sizes[axis]);
            const uint32_t quotient = rest / size;
            positions[axis * row + before] = static_cast<int64_t>(rest - quotient * size);
            rest = quotient;
        }
        positions[before] = static_cast<int64_t>(rest);
    }
};

bool elements(const NonZeroShape& shape, int64_t& count) {
    if (shape.rank < 1 || shape.rank > kNonZeroMaxRank) {
        return false;
    }
    count = 1;
    bool empty = false;
    for (int32_t axis = 0; axis < shape.rank; ++axis) {
        const int64_t size = shape.sizes[axis];
        if (size < 0 || (size > 0 && count > kMaxElements / size)) {
            return false;
        }
        empty = empty || size == 0;
        count *= size > 0 ? size : 1;
    }
    count = empty ? 0 : count;
    return count <= INT32_MAX;  // or the number of results may not fit
}

}  // namespace

size_t nonZeroWorkspace(const NonZeroShape& shape) {
    int64_t n = 0;
    return elements(shape, n) ? enumerateWorkspace(n) : 0;
}

cudaError_t nonZero(const NonZeroParams& params, const NonZeroShape& shape, void* workspace, cudaStream_t stream) {
    int64_t n = 0;
    if (!elements(shape, n) || (n > 0 && (params.x == nullptr || params.positions == nullptr))) {
        return cudaErrorInvalidValue;
    }
    const IsSet isSet{params.x, params.type};
    const WriteCoordinates write{shape, params.positions, params.count};
    return enumerate(isSet, n, params.count, write, workspace, stream);
}

}  // namespace trtsmith
