#include "gather_slices.cuh"

#include "dispatch.cuh"

namespace trtsmith {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1 << 16;  // threads stride over the rest

template <typename Index, typename Word>
__device__ void copy(const Word* x, const int64_t* chosen, int64_t count, GatherSlicesShape shape, Word* output) {
    const auto inner = static_cast<Index>(shape.inner);
    const auto rows = static_cast<Index>(count);
    const auto total = static_cast<Index>(shape.outer * count * shape.inner);
    const auto stride = static_cast<Index>(static_cast<int64_t>(gridDim.x) * kThreads);
    for (auto at = static_cast<Index>(static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x); at < total;) {
        const Index row = at / inner;
        const Index image = row / rows;
        const int64_t from = static_cast<int64_t>(image) * shape.size + chosen[row - image * rows];
        output[at] = x[from * shape.inner + static_cast<int64_t>(at - row * inner)];
        if (total - at <= stride) {  // so that `at` cannot wrap
            break;
        }
        at += stride;
    }
}

template <typename Word>
__global__ void __launch_bounds__(kThreads)
    gatherKernel(const Word* x, const int64_t* chosen, const int32_t* count, GatherSlicesShape shape, Word* output) {
    const int64_t rows = *count;
    if (shape.outer * rows * shape.inner <= UINT32_MAX) {
        copy<uint32_t>(x, chosen, rows, shape, output);  // divisions of 32 bits are several times as fast
    } else {
        copy<uint64_t>(x, chosen, rows, shape, output);
    }
}

// A slice as words of that type, if it consists of such.
template <typename Word>
bool launchAs(const GatherSlicesParams& params, const GatherSlicesShape& shape, cudaStream_t stream,
              cudaError_t& status) {
    const size_t bytes = static_cast<size_t>(shape.inner) * params.elementBytes;
    if (bytes % sizeof(Word) != 0 || !isAligned(params.x, sizeof(Word)) || !isAligned(params.output, sizeof(Word))) {
        return false;
    }
    GatherSlicesShape words = shape;
    words.inner = static_cast<int64_t>(bytes / sizeof(Word));
    const int64_t blocks = ceilDivide(words.outer * words.size * words.inner, kThreads);
    status = launch(gatherKernel<Word>, static_cast<unsigned int>(blocks < kMostBlocks ? blocks : kMostBlocks),
                    kThreads, 0, stream, static_cast<const Word*>(params.x), params.chosen, params.count, words,
                    static_cast<Word*>(params.output));
    return true;
}

}  // namespace

cudaError_t gatherSlices(const GatherSlicesParams& params, const GatherSlicesShape& shape, cudaStream_t stream) {
    int64_t elements = 0;
    const size_t bytes = params.elementBytes;
    if ((bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) ||
        !elementCount({shape.outer, shape.size, shape.inner}, elements)) {
        return cudaErrorInvalidValue;
    }
    if (elements == 0) {
        return cudaSuccess;
    }
    if (params.x == nullptr || params.chosen == nullptr || params.count == nullptr || params.output == nullptr) {
        return cudaErrorInvalidValue;
    }
    cudaError_t status = cudaErrorInvalidValue;
    static_cast<void>(
        launchAs<uint4>(params, shape, stream, status) || launchAs<uint2>(params, shape, stream, status) ||
        launchAs<uint32_t>(params, shape, stream, status) || launchAs<uint16_t>(params, shape, stream, status) ||
        launchAs<uint8_t>(params, shape, stream, status));
    return status;
}

}  // namespace trtsmith
