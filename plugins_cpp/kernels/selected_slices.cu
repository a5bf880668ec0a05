#include "selected_slices.cuh"

#include "dispatch.cuh"
#include "enumerate.cuh"
#include "is_set.cuh"

namespace trtsmith {
namespace {

struct WritePosition {
    int64_t* chosen;

    __device__ void operator()(int64_t at, bool flagged, int64_t before) const {
        if (flagged) {
            chosen[before] = at;
        }
    }
};

int64_t candidates(const GatherSlicesShape& shape, int64_t length) { return shape.size < length ? shape.size : length; }

}  // namespace

size_t selectedSlicesWorkspace(const GatherSlicesShape& shape, int64_t length) {
    const int64_t n = candidates(shape, length);
    return n > 0 && n <= kMaxElements ? static_cast<size_t>(n) * sizeof(int64_t) + enumerateWorkspace(n) : 0;
}

cudaError_t selectedSlices(const SelectedSlicesParams& params, const GatherSlicesShape& shape, void* workspace,
                           cudaStream_t stream) {
    const int64_t n = candidates(shape, params.length);
    if (n < 0 || n > kMaxElements || (n > 0 && (params.condition == nullptr || workspace == nullptr))) {
        return cudaErrorInvalidValue;
    }
    auto* const chosen = static_cast<int64_t*>(workspace);
    const IsSet holds{params.condition, DType::kBool};
    const cudaError_t status = enumerate(holds, n, params.count, WritePosition{chosen}, chosen + n, stream);
    if (status != cudaSuccess || n == 0) {
        return status;
    }
    return gatherSlices({params.elementBytes, params.x, chosen, params.count, params.output}, shape, stream);
}

}  // namespace trtsmith
