#include "kernels/regions/region_pool.cuh"

#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"

namespace trtsmith {
namespace {

constexpr unsigned int kThreads = 256;
constexpr float kFarthest = 1073741824.0F;
constexpr float kLowest = -3.402823466e+38F;

struct Arguments {
    RegionPoolParams params;
    RegionPoolShape shape;
    int64_t outputChannels;
    int64_t outputs;
};

struct Span {
    int64_t begin, end;
};

__device__ int64_t clamped(float place, int64_t start, int64_t limit) {
    const int64_t pixel = static_cast<int64_t>(place) + start;
    return pixel < 0 ? 0 : (pixel < limit ? pixel : limit);
}

// The pixels of one bin along an axis. Rounded as torchvision rounds: where an edge falls decides which pixels a bin has, so
// that no product may be fused into a sum.
__device__ Span spanOf(float first, float last, float scale, int64_t bin, int64_t bins, int64_t extent, bool average) {
    const float start = roundf(__fmul_rn(first, scale));
    const float stop = roundf(__fmul_rn(last, scale));
    if (!(fabsf(start) <= kFarthest) || !(fabsf(stop) <= kFarthest)) {
        return {0, 0};
    }
    const int64_t from = static_cast<int64_t>(start);
    const int64_t length = static_cast<int64_t>(stop) - from + (average ? 0 : 1);
    const float size = __fdiv_rn(static_cast<float>(length < 1 ? 1 : length), static_cast<float>(bins));
    const int64_t limit = average && extent > 0 ? extent - 1 : extent;
    return {clamped(floorf(__fmul_rn(static_cast<float>(bin), size)), from, limit),
            clamped(ceilf(__fmul_rn(static_cast<float>(bin + 1), size)), from, limit)};
}

template <typename T>
__global__ void __launch_bounds__(kThreads) poolKernel(const __grid_constant__ Arguments a) {
    const RegionPoolShape& s = a.shape;
    const bool average = a.params.byPosition;
    for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < a.outputs; i += gridDim.x * int64_t{kThreads}) {
        const int64_t column = i % s.outputWidth;
        const int64_t row = i / s.outputWidth % s.outputHeight;
        const int64_t channel = i / (s.outputWidth * s.outputHeight) % a.outputChannels;
        const int64_t region = i / (s.outputWidth * s.outputHeight * a.outputChannels);
        const T* const numbers = static_cast<const T*>(a.params.regions) + 5 * region;
        const float image = loadFloat(numbers);
        float result = 0.0F;
        if (image > -1.0F && image < static_cast<float>(s.batch)) {
            const Span rows = spanOf(loadFloat(numbers + 2), loadFloat(numbers + 4), a.params.scale, row,
                                     s.outputHeight, s.height, average);
            const Span columns = spanOf(loadFloat(numbers + 1), loadFloat(numbers + 3), a.params.scale, column,
                                        s.outputWidth, s.width, average);
            if (rows.begin < rows.end && columns.begin < columns.end) {
                const int64_t plane = average ? (channel * s.outputHeight + row) * s.outputWidth + column : channel;
                const T* const pixels = static_cast<const T*>(a.params.map) +
                                        (static_cast<int64_t>(image) * s.channels + plane) * s.height * s.width;
                result = average ? 0.0F : kLowest;
                for (int64_t y = rows.begin; y < rows.end; ++y) {
                    for (int64_t x = columns.begin; x < columns.end; ++x) {
                        const float value = loadFloat(pixels + y * s.width + x);
                        result = average ? result + value : (value > result ? value : result);
                    }
                }
                if (average) {
                    result /= static_cast<float>((rows.end - rows.begin) * (columns.end - columns.begin));
                }
            }
        }
        static_cast<T*>(a.params.output)[i] = fromFloat<T>(result);
    }
}

}  // namespace

cudaError_t regionPool(const RegionPoolParams& params, const RegionPoolShape& shape, cudaStream_t stream) {
    int64_t values = 0;
    int64_t boxes = 0;
    int64_t bins = 0;
    if (!elementCount({shape.batch, shape.channels, shape.height, shape.width}, values) ||
        !elementCount({shape.regions, 5}, boxes) || !elementCount({shape.outputHeight, shape.outputWidth}, bins)) {
        return cudaErrorInvalidValue;
    }
    if (params.byPosition && (bins == 0 || shape.channels % bins != 0)) {
        return cudaErrorInvalidValue;
    }
    Arguments a{params, shape, params.byPosition ? shape.channels / bins : shape.channels, 0};
    if (!elementCount({shape.regions, a.outputChannels, shape.outputHeight, shape.outputWidth}, a.outputs)) {
        return cudaErrorInvalidValue;
    }
    if (a.outputs == 0) {
        return cudaSuccess;
    }
    if (params.regions == nullptr || params.output == nullptr || (values > 0 && params.map == nullptr)) {
        return cudaErrorInvalidValue;
    }
    return withFloatType(params.type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return launch(poolKernel<T>, gridBlocks(ceilDivide(a.outputs, int64_t{kThreads})), kThreads, 0, stream, a);
    });
}

}  // namespace trtsmith
