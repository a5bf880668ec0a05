#include "kernels/sampling/correlation_lookup.cuh"

#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"
#include "kernels/fast_division.cuh"

namespace trtsmith {
namespace {

constexpr int kThreads = 256;
constexpr int kMostPixels = 128;      // of a block
constexpr int kAtOnce = 8;            // taps that a thread has on their way
constexpr int kOutside = -(1 << 26);  // a pixel from which no window reaches the volume

// A block has neighbouring pixels of an image. Threads side by side read neighbouring taps of a window's line, which are side
// by side in memory too; the taps of all windows meet in shared memory, from which threads side by side write neighbouring
// pixels. Which tap is whose takes as few instructions as can be: they, and not the memory, took half of the time.
struct Arguments {
    CorrelationLookupParams params;
    CorrelationLookupShape shape;
    int pixelBits;        // 2^pixelBits pixels of a block
    int laneBits;         // 2^laneBits threads for a line
    int across;           // taps of a line: one more than samples, as each sample lies between two
    int down;             // lines of a window; 1 where all places are in row 0
    FastDivider byTiles;  // of an image
    FastDivider byDown;
};

struct Place {
    int column;  // of the first tap
    int row;
    float x;  // from the left one of two taps to the right one
    float y;
};

// The pixel at or before a place, and how far the place is from it. Nothing is around a place that is not finite.
__device__ inline int split(float place, float& share) {
    const bool near = fabsf(place) < 33554432.0F;  // false for NaN
    const float whole = floorf(near ? place : 0.0F);
    share = near ? place - whole : 0.0F;
    return near ? static_cast<int>(whole) : kOutside;
}

__device__ inline Place placeOf(const Arguments& a, int64_t image, int64_t pixel, int64_t plane) {
    const float* const places = a.params.places + image * a.shape.axes * plane + pixel;
    Place place{0, 0, 0.0F, 0.0F};
    const int radius = static_cast<int>(a.shape.radius);
    place.column = split(__ldg(places), place.x) - radius;
    if (!a.shape.flat) {
        place.row = split(__ldg(places + plane), place.y) - radius;
    }
    return place;
}

// The windows of a block's pixels, of which `volume` has the first one's values.
template <typename T, bool kFlat>
__device__ inline void readTaps(const Arguments& a, const Place* places, const T* volume, float* taps) {
    const int thread = static_cast<int>(threadIdx.x);
    const int lines = (1 << a.pixelBits) * a.down;
    const int pitch = (1 << a.pixelBits) + 1;
    const int teams = kThreads >> a.laneBits;
    const int rows = static_cast<int>(a.shape.rows);
    const int columns = static_cast<int>(a.shape.columns);
    for (int i = thread & ((1 << a.laneBits) - 1); i < a.across; i += 1 << a.laneBits) {
        for (int first = thread >> a.laneBits; first < lines; first += kAtOnce * teams) {
            float found[kAtOnce];
            int targets[kAtOnce];
#pragma unroll
            for (int u = 0; u < kAtOnce; ++u) {
                const int line = first + u * teams;
                const int pixel = line >= lines ? 0 : kFlat ? line : a.byDown.quotient(line);
                const int j = kFlat ? 0 : line - pixel * a.down;
                const int column = places[pixel].column + i;
                const int row = kFlat ? 0 : places[pixel].row + j;
                const bool inside = line < lines && column >= 0 && column < columns && row >= 0 && row < rows;
                targets[u] = (j * a.across + i) * pitch + pixel;
                found[u] = loadFloat(volume + static_cast<int64_t>(pixel * rows + row) * columns + column, inside);
            }
#pragma unroll
            for (int u = 0; u < kAtOnce; ++u) {
                if (first + u * teams < lines) {
                    taps[targets[u]] = found[u];
                }
            }
        }
    }
}

template <typename T, bool kFlat>
__global__ void __launch_bounds__(kThreads) lookupKernel(const __grid_constant__ Arguments a) {
    extern __shared__ float taps[];  // [down, across, pitch], where the pitch is odd
    __shared__ Place places[kMostPixels];
    const CorrelationLookupShape& s = a.shape;
    const int thread = static_cast<int>(threadIdx.x);
    const int pitch = (1 << a.pixelBits) + 1;
    const int64_t plane = s.height * s.width;
    const int image = a.byTiles.quotient(static_cast<int>(blockIdx.x));
    const int tile = static_cast<int>(blockIdx.x) - image * static_cast<int>(a.byTiles.divisor);
    const int64_t first = int64_t{tile} << a.pixelBits;
    if (thread < 1 << a.pixelBits) {
        places[thread] = first + thread < plane ? placeOf(a, image, first + thread, plane) : Place{kOutside, 0, 0, 0};
    }
    __syncthreads();
    const T* const volume = static_cast<const T*>(a.params.volume) + (image * plane + first) * s.rows * s.columns;
    readTaps<T, kFlat>(a, places, volume, taps);
    __syncthreads();
    const int pixel = thread & ((1 << a.pixelBits) - 1);
    if (first + pixel >= plane) {
        return;
    }
    const Place place = places[pixel];
    const int samples = a.across - 1;
    const int64_t column = (kFlat ? 1 : samples) * plane;  // of the output
    int i = thread >> a.pixelBits;
    T* target = static_cast<T*>(a.params.output) + (int64_t{image} * samples + i) * column + first + pixel;
    for (; i < samples; i += kThreads >> a.pixelBits, target += (kThreads >> a.pixelBits) * column) {
        const float* tap = taps + i * pitch + pixel;
        float above = fmaf(place.x, tap[pitch] - tap[0], tap[0]);
        if (kFlat) {
            *target = fromFloat<T>(above);
            continue;
        }
        T* sample = target;
        for (int j = 0; j < samples; ++j, sample += plane) {
            tap += a.across * pitch;
            const float here = fmaf(place.x, tap[pitch] - tap[0], tap[0]);
            *sample = fromFloat<T>(fmaf(place.y, here - above, above));
            above = here;
        }
    }
}

// Sizes that do not overflow, a window that fits, and no null pointer to a tensor that has elements.
bool isValid(const CorrelationLookupParams& p, const CorrelationLookupShape& s, int64_t& outputs) {
    constexpr int64_t kMostSide = int64_t{1} << 23;
    if (s.radius < 0 || s.radius > kMostCorrelationRadius || s.rows > kMostSide || s.columns > kMostSide ||
        s.axes < 1 || (!s.flat && s.axes < 2)) {
        return false;
    }
    int64_t values = 0;
    int64_t places = 0;
    const int64_t across = 2 * s.radius + 1;
    return elementCount({s.batch, s.height, s.width, s.rows, s.columns}, values) &&
           elementCount({s.batch, s.axes, s.height, s.width}, places) &&
           places <= std::numeric_limits<int32_t>::max() &&
           elementCount({s.batch, across, s.flat ? 1 : across, s.height, s.width}, outputs) &&
           (outputs == 0 || (p.places != nullptr && p.output != nullptr && (values == 0 || p.volume != nullptr)));
}

}  // namespace

cudaError_t correlationLookup(const CorrelationLookupParams& params, const CorrelationLookupShape& shape,
                              cudaStream_t stream) {
    int64_t outputs = 0;
    if (!isValid(params, shape, outputs)) {
        return cudaErrorInvalidValue;
    }
    if (outputs == 0) {
        return cudaSuccess;
    }
    Arguments a{params, shape, 7, 0, static_cast<int>(shape.radius) * 2 + 2, 1, {}, {}};
    static_assert(kMostPixels == 1 << 7);
    a.down = shape.flat ? 1 : a.across;
    while (a.pixelBits > 0 && a.across * a.down << a.pixelBits > kAtOnce * kThreads) {
        --a.pixelBits;
    }
    while (1 << a.laneBits < a.across && a.laneBits < 5) {
        ++a.laneBits;
    }
    const int64_t tiles = ceilDivide(shape.height * shape.width, int64_t{1} << a.pixelBits);
    a.byTiles = FastDivider(tiles);
    a.byDown = FastDivider(a.down);
    const unsigned int blocks = gridBlocks(shape.batch * tiles);
    const size_t bytes = sizeof(float) * a.across * a.down * ((1 << a.pixelBits) + 1);
    return withFloatType(params.type, [&](auto tag) -> cudaError_t {
        using T = typename decltype(tag)::type;
        return launch(shape.flat ? lookupKernel<T, true> : lookupKernel<T, false>, blocks, kThreads, bytes, stream, a);
    });
}

}  // namespace trtsmith
