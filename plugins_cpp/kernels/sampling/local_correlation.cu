#include "kernels/sampling/local_correlation.cuh"

#include <numeric>

#include "kernels/channels_last.cuh"
#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"
#include "kernels/sampling/local_correlation_tiles.cuh"

namespace trtsmith {
namespace {

constexpr int32_t kThreads = 256;
// Displacements side by side that a thread of the kernel for channels first has: it reads the first map once for them.
constexpr int32_t kDisplacements = 8;
// Summed by themselves first: one running sum over all channels would lose as many roundings as there are channels.
constexpr int64_t kSummedChannels = 32;
// Below, a product on tensor cores is mostly filling.
constexpr int64_t kLeastTileChannels = 16;

struct Arguments {
    LocalCorrelationParams params;
    LocalCorrelationShape shape;
    int64_t patch;
    int64_t parts;  // of a row of displacements
    int64_t items;
};

// The sums over channels of one tap. A displacement whose partner lies outside reads some pixel of the row, and its sum does
// not count.
template <typename T>
__device__ inline void addTap(const LocalCorrelationShape& s, const T* first, const T* second, int64_t partner,
                              float (&totals)[kDisplacements]) {
    const int64_t plane = s.height * s.width;
    int32_t columns[kDisplacements];
#pragma unroll
    for (int k = 0; k < kDisplacements; ++k) {
        const int64_t column = partner + k * s.stepWidth;
        columns[k] = static_cast<int32_t>(column < 0 ? 0 : column < s.width ? column : s.width - 1);
    }
    for (int64_t begin = 0; begin < s.channels; begin += kSummedChannels) {
        const int64_t end = begin + kSummedChannels < s.channels ? begin + kSummedChannels : s.channels;
        float sums[kDisplacements] = {};
#pragma unroll 1
        for (int64_t channel = begin; channel < end; ++channel) {
            const float value = loadFloat(first);
#pragma unroll
            for (int k = 0; k < kDisplacements; ++k) {
                sums[k] = fmaf(value, loadFloat(second + columns[k]), sums[k]);
            }
            first += plane;
            second += plane;
        }
#pragma unroll
        for (int k = 0; k < kDisplacements; ++k) {
            totals[k] += columns[k] == partner + k * s.stepWidth ? sums[k] : 0.0F;
        }
    }
}

// From maps as they are. Neighbouring threads have neighbouring outputs, and kDisplacements of a row of displacements each.
template <typename T>
__global__ void __launch_bounds__(kThreads, 3) directKernel(const __grid_constant__ Arguments a) {
    const LocalCorrelationShape& s = a.shape;
    const int64_t step = int64_t{gridDim.x} * kThreads;
    for (int64_t item = int64_t{blockIdx.x} * kThreads + threadIdx.x; item < a.items; item += step) {
        int64_t rest = item / s.outWidth;
        const int64_t column = item - rest * s.outWidth;
        int64_t next = rest / a.parts;
        const int64_t firstDisplacement = (rest - next * a.parts) * kDisplacements;
        rest = next / a.patch;
        const int64_t displacement = next - rest * a.patch;
        const int64_t image = rest / s.outHeight;
        const int64_t row = rest - image * s.outHeight;
        float totals[kDisplacements] = {};
        for (int64_t i = 0; i < s.kernelHeight; ++i) {
            const int64_t y = row * s.strideHeight - s.paddingTop + i * s.dilationHeight;
            const int64_t partnerY = y + (displacement - s.radius) * s.stepHeight;
            if (y < 0 || y >= s.height || partnerY < 0 || partnerY >= s.height) {
                continue;
            }
            for (int64_t j = 0; j < s.kernelWidth; ++j) {
                const int64_t x = column * s.strideWidth - s.paddingLeft + j * s.dilationWidth;
                if (x < 0 || x >= s.width) {
                    continue;
                }
                const int64_t images = image * s.channels * s.height;
                const T* const first = static_cast<const T*>(a.params.first) + (images + y) * s.width + x;
                const T* const second = static_cast<const T*>(a.params.second) + (images + partnerY) * s.width;
                addTap(s, first, second, x + (firstDisplacement - s.radius) * s.stepWidth, totals);
            }
        }
        T* target = static_cast<T*>(a.params.output) + row * s.outWidth + column +
                    ((image * a.patch + displacement) * a.patch + firstDisplacement) * s.outHeight * s.outWidth;
#pragma unroll
        for (int k = 0; k < kDisplacements; ++k) {
            if (firstDisplacement + k < a.patch) {
                *target = fromFloat<T>(totals[k]);
                target += s.outHeight * s.outWidth;
            }
        }
    }
}

int64_t apartOf(const LocalCorrelationShape& s) { return s.stepWidth / std::gcd(s.strideWidth, s.stepWidth); }

// Columns of the maps and offsets into their rows then fit 32 bits, whatever the padding.
bool hasShortRows(const LocalCorrelationShape& s) {
    constexpr int64_t kLongest = int64_t{1} << 26;
    constexpr int64_t kLargestStep = int64_t{1} << 16;
    return s.channels <= kLongest && s.width <= kLongest && (s.channels + 8) * s.width <= kLongest * 16 &&
           s.strideWidth <= kLargestStep && s.stepWidth <= kLargestStep;
}

int64_t segmentsOf(const LocalCorrelationShape& s) {
    const int64_t apart = apartOf(s);
    return ceilDivide(s.outWidth, kTileRows * apart * (kTileWarps / apart));
}

bool isTiled(DType type, const LocalCorrelationShape& s) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    if (apartOf(s) > kTileWarps || !isTurnable(s.batch, s.channels, s.height * s.width)) {
        return false;
    }
    int64_t pieces = 0;
    const bool counted = elementCount({s.batch, s.outHeight, segmentsOf(s), 2 * s.radius + 1}, pieces);
    // A stride of many steps spreads partners so far that most of a product is not wanted.
    return bytesOf(type) == 2 && s.channels >= kLeastTileChannels && 2 * s.radius + 1 <= kMostPatch && counted &&
           pieces <= kMost / 2 && apartOf(s) * s.strideWidth <= 4 * s.stepWidth && hasShortRows(s);
}

// Whether the code that runs on the current device has the kernel: it is empty in what was compiled for less than sm_80, and
// in what the driver makes of that for a newer device.
cudaError_t hasTiles(bool& has) {
    cudaFuncAttributes attributes{};
    const auto kernel = tileKernel<__half, 5>;
    const cudaError_t error = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel));
    if (error != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
    }
    has = attributes.ptxVersion >= 80;
    return error;
}

template <typename T, int kTiles>
cudaError_t launchTiles(const TileArguments& a, cudaStream_t stream) {
    const size_t bytes = static_cast<size_t>(a.patch) * kTilePitch * sizeof(T);
    return launchAfterTurning(tileKernel<T, kTiles>, gridBlocks(a.pieces), kTileThreads, bytes, stream, a);
}

template <typename T>
cudaError_t correlateTiled(const LocalCorrelationParams& p, const LocalCorrelationShape& s, void* workspace,
                           cudaStream_t stream) {
    const int64_t padded = paddedChannels(s.channels, sizeof(T));
    T* const first = static_cast<T*>(workspace);
    T* const second = first + s.batch * s.height * s.width * padded;
    cudaError_t status = channelsLast<T>(p.first, first, s.batch, s.channels, s.height * s.width, stream);
    if (status == cudaSuccess) {
        status = channelsLast<T>(p.second, second, s.batch, s.channels, s.height * s.width, stream);
    }
    if (status != cudaSuccess) {
        return status;
    }
    TileArguments a{};
    a.params = p;
    a.shape = s;
    a.first = first;
    a.second = second;
    a.padded = padded;
    a.patch = static_cast<int32_t>(2 * s.radius + 1);
    a.apart = static_cast<int32_t>(apartOf(s));
    a.ratio = static_cast<int32_t>(a.apart * s.strideWidth / s.stepWidth);
    a.groups = kTileWarps / a.apart;
    a.tiles = static_cast<int32_t>(ceilDivide(a.ratio * (kTileRows - 1) + a.patch, kTileColumns));
    const int64_t segments = segmentsOf(s);
    a.rows = FastDivider(s.outHeight);
    a.segments = FastDivider(segments);
    a.displacements = FastDivider(a.patch);
    a.pieces = static_cast<int32_t>(s.batch * s.outHeight * segments * a.patch);
    return a.tiles <= 3 ? launchTiles<T, 3>(a, stream) : launchTiles<T, 5>(a, stream);
}

template <typename T>
cudaError_t correlate(const LocalCorrelationParams& p, const LocalCorrelationShape& s, void* workspace,
                      cudaStream_t stream) {
    if constexpr (sizeof(T) == 2) {
        bool tiled = false;
        const cudaError_t error = isTiled(p.type, s) ? hasTiles(tiled) : cudaSuccess;
        if (error != cudaSuccess || tiled) {
            return error != cudaSuccess ? error : correlateTiled<T>(p, s, workspace, stream);
        }
    }
    Arguments a{p, s, 2 * s.radius + 1, 0, 0};
    a.parts = ceilDivide(a.patch, kDisplacements);
    a.items = s.batch * s.outHeight * a.patch * a.parts * s.outWidth;
    return launch(directKernel<T>, gridBlocks(ceilDivide(a.items, kThreads)), kThreads, 0, stream, a);
}

bool isLegal(const LocalCorrelationShape& s) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    for (const int64_t size : {s.kernelHeight, s.kernelWidth, s.strideHeight, s.strideWidth, s.dilationHeight,
                               s.dilationWidth, s.stepHeight, s.stepWidth}) {
        if (size < 1 || size > kMost) {
            return false;
        }
    }
    for (const int64_t size : {s.height, s.width, s.outHeight, s.outWidth}) {
        if (size < 0 || size > 2 * kMost) {
            return false;
        }
    }
    for (const int64_t reach : {s.paddingTop, s.paddingLeft, s.radius, s.radius * s.stepHeight, s.radius * s.stepWidth,
                                (s.kernelHeight - 1) * s.dilationHeight, (s.kernelWidth - 1) * s.dilationWidth}) {
        if (reach < 0 || reach > kMaxCorrelationReach) {
            return false;
        }
    }
    return s.channels >= 0 && s.channels <= kMaxElements && s.height <= kMost && s.width <= kMost;
}

bool isValid(const LocalCorrelationParams& p, const LocalCorrelationShape& s, int64_t& outputs) {
    int64_t inputs = 0;
    const int64_t patch = 2 * s.radius + 1;
    if (!isLegal(s) || !elementCount({s.batch, s.channels + 8, s.height, s.width, 2}, inputs) ||
        !elementCount({s.batch, patch, patch + kDisplacements, s.outHeight, s.outWidth}, outputs) ||
        !elementCount({s.batch, s.channels, s.height, s.width}, inputs)) {
        return false;
    }
    const bool hasInputs = inputs == 0 || (p.first != nullptr && p.second != nullptr);
    return outputs == 0 || (hasInputs && p.output != nullptr);
}

}  // namespace

size_t localCorrelationWorkspace(DType type, const LocalCorrelationShape& shape) {
    int64_t count = 0;
    const bool fits = isLegal(shape) && isTiled(type, shape) &&
                      elementCount({shape.batch, paddedChannels(shape.channels, bytesOf(type)), shape.height,
                                    shape.width, 2 * static_cast<int64_t>(bytesOf(type))},
                                   count);
    return fits ? static_cast<size_t>(count) : 0;
}

cudaError_t localCorrelation(const LocalCorrelationParams& params, const LocalCorrelationShape& shape, void* workspace,
                             cudaStream_t stream) {
    int64_t outputs = 0;
    if (!isValid(params, shape, outputs) ||
        (outputs > 0 && workspace == nullptr && localCorrelationWorkspace(params.type, shape) > 0)) {
        return cudaErrorInvalidValue;
    }
    return withFloatType(params.type, [&](auto tag) -> cudaError_t {
        using T = typename decltype(tag)::type;
        return outputs == 0 ? cudaSuccess : correlate<T>(params, shape, workspace, stream);
    });
}

}  // namespace trtsmith
