#include "kernels/selection/detection_selection.cuh"

#include "kernels/selection/detection_selection_prepare.cuh"
#include "kernels/selection/detection_selection_state.cuh"
#include "kernels/selection/detection_selection_suppress.cuh"

namespace trtsmith {
namespace {

using namespace detection_selection_detail;

// The next candidates after `cursor`, kChunk at most, in the image's order; `more` says whether there are others after them.
template <typename T>
__device__ int nextChunk(const Plan& plan, Workroom& room, int64_t image, bool first, Key cursor, bool& more) {
    const int thread = static_cast<int>(threadIdx.x);
    int count = 0;
    if (first && plan.prepared) {
        count = static_cast<int>(plan.firstCounts[image]);
        more = plan.firstBins[image] < static_cast<uint32_t>(kBins);
        for (int i = thread; i < count; i += kThreads) {
            room.keys[i] = plan.chunks[image * kChunk + i];
        }
    } else {
        const auto keyAt = [&plan, image](int64_t i) { return keyOf<T>(plan, image, static_cast<uint32_t>(i)); };
        bool all = false;
        const Key last = lastOfBest(keyAt, plan.scores, cursor, kChunk, false, room.scratch, room.search, all);
        more = !all;
        if (thread == 0) {
            room.count = 0;
        }
        __syncthreads();
        for (int64_t i = thread; i < plan.scores; i += kThreads) {
            const Key key = keyAt(i);
            if (key != kNone && key > cursor && key <= last) {
                room.keys[atomicAdd(&room.count, 1)] = key;
            }
        }
        __syncthreads();
        count = room.count;
    }
    if (count > 0) {
        sortKeys(room.keys, count);
    }
    return count;
}

// One block for each image. Kind is what params.kind is: the compiler leaves other kinds of boxes out.
template <typename T, BoxKind Kind>
__global__ void __launch_bounds__(kThreads) selectKernel(Plan plan) {
    __shared__ Workroom room;
    plan.params.kind = Kind;
    const int thread = static_cast<int>(threadIdx.x);
    const int64_t most = plan.shape.most;
    for (int64_t image = blockIdx.x; image < plan.shape.batch; image += gridDim.x) {
        int64_t kept = 0;
        Key cursor = 0;  // before all keys: those of candidates are above
        bool more = plan.scores > 0;
        for (bool first = true; more && kept < most; first = false) {
            const int count = nextChunk<T>(plan, room, image, first, cursor, more);
            for (int begin = 0; begin < count && kept < most; begin += kTileBoxes) {
                kept = suppressTile<T>(plan, room, image, begin, count, kept);
            }
            cursor = count > 0 ? room.keys[count - 1] : cursor;
            __syncthreads();
        }
        for (int64_t row = kept + thread; row < most; row += kThreads) {
            const int64_t to = image * most + row;
            const int columns = columnsOf(plan);
            for (int i = 0; i < columns; ++i) {
                static_cast<T*>(plan.params.outBoxes)[to * columns + i] = fromFloat<T>(0.0F);
            }
            static_cast<T*>(plan.params.outScores)[to] = fromFloat<T>(0.0F);
            plan.params.outClasses[to] = plan.params.filler;
            plan.params.outIndices[to] = plan.params.filler;
        }
        if (thread == 0) {
            plan.params.number[image] = static_cast<int32_t>(kept);
        }
    }
}

}  // namespace

size_t detectionSelectionWorkspace(const DetectionSelectionShape& shape) {
    Plan plan{};
    size_t size = 0;
    DetectionSelectionShape any = shape;
    any.groups = 1;  // does not matter, and the largest of a profile need not go with the other sizes
    return layOut(any, nullptr, plan, size) ? size : 0;
}

cudaError_t detectionSelection(const DetectionSelectionParams& params, const DetectionSelectionShape& shape,
                               void* workspace, cudaStream_t stream) {
    Plan plan{};
    size_t size = 0;
    if (!layOut(shape, workspace, plan, size)) {
        return cudaErrorInvalidValue;
    }
    if (shape.batch == 0) {
        return cudaSuccess;
    }
    const bool rows = shape.most == 0 || (params.outBoxes != nullptr && params.outScores != nullptr &&
                                          params.outClasses != nullptr && params.outIndices != nullptr);
    if (!rows || params.number == nullptr || (size > 0 && workspace == nullptr) ||
        (plan.scores > 0 && (params.boxes == nullptr || params.scores == nullptr))) {
        return cudaErrorInvalidValue;
    }
    plan.params = params;
    plan.needsClass = plan.limited || params.classMajor || params.background >= 0;
    return withFloatType(params.type, [&plan, stream](auto tag) {
        using T = typename decltype(tag)::type;
        const cudaError_t status = prepare<T>(plan, stream);
        if (status != cudaSuccess) {
            return status;
        }
        const auto kernel = plan.params.kind == BoxKind::kPolygons  ? selectKernel<T, BoxKind::kPolygons>
                            : plan.params.kind == BoxKind::kProbIou ? selectKernel<T, BoxKind::kProbIou>
                                                                    : selectKernel<T, BoxKind::kUpright>;
        return launch(kernel, gridBlocks(plan.shape.batch), kThreads, 0, stream, plan);
    });
}

}  // namespace trtsmith
