#include "kernels/regions/precise_region_pool.cuh"

#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"
#include "kernels/regions/precise_region_bins.cuh"

namespace trtsmith {
namespace {

constexpr int32_t kWarp = 32;
constexpr int32_t kWarps = 8;
constexpr int32_t kThreads = kWarp * kWarps;
constexpr int32_t kBlocks = 3;    // of a multiprocessor: told none, ptxas takes 64 registers and spills
constexpr int32_t kRows = 4;      // of bins, at a time
constexpr int32_t kChannels = 4;  // of a lane, at a time: they share weights, and their loads are in flight at once
constexpr int32_t kColumns = 32;  // of bins, at a time
constexpr int32_t kItems = kRows * kColumns;

// A pixel's weight in a bin is a product of one of its row and one of its column. A warp sums the rows of a channel first,
// lanes side by side for columns side by side, and then the columns. A narrow region leaves lanes for other channels.
struct Arguments {
    PreciseRegionPoolParams params;
    PreciseRegionPoolShape shape;
    int64_t bins;           // of a region
    int64_t sliceChannels;  // of a block
    int64_t slices;
};

struct Places {
    PreciseBin rows[kRows];
    PreciseBin columns[kColumns];
    float sums[kWarps][kChannels][kRows][kWarp];
    float results[kWarps][kChannels][kItems];
};

// Of a region on its map, in pixels; a size of 0 where there is none.
struct Region {
    int64_t image;
    double x, y;
    double width, height;  // of a bin
};

template <typename T>
__device__ Region regionOf(const Arguments& a, int64_t index) {
    const T* const source = static_cast<const T*>(a.params.regions) + 5 * index;
    float box[5];
    bool exists = true;
    for (int i = 0; i < 5; ++i) {
        box[i] = loadFloat(source + i);
        exists = exists && fabsf(box[i]) <= 3.402823466e+38F;
    }
    exists = exists && box[0] > -1.0F && box[0] < static_cast<float>(a.shape.batch);
    const double scale = a.params.scale;
    const double width = (static_cast<double>(box[3]) - box[1]) * scale / static_cast<double>(a.shape.outputWidth);
    const double height = (static_cast<double>(box[4]) - box[2]) * scale / static_cast<double>(a.shape.outputHeight);
    if (!exists || !(width > 0.0) || !(height > 0.0)) {
        return {};
    }
    return {static_cast<int64_t>(box[0]), box[1] * scale, box[2] * scale, width, height};
}

// A tile of a region's bins, rows * columns of them, for the channels [0, count) of the map at `source`.
template <typename T>
__device__ void poolTile(const Arguments& a, Places& places, const T* source, T* target, int64_t count, int32_t rows,
                         int32_t columns, float scale) {
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarp;
    const int32_t warp = static_cast<int32_t>(threadIdx.x) / kWarp;
    const int32_t width = static_cast<int32_t>(a.shape.width);
    const int64_t plane = a.shape.height * a.shape.width;
    const int32_t begin = places.columns[0].begin;
    const int32_t end = places.columns[columns - 1].end;
    int32_t lanes = 1;
    while (lanes < kWarp && lanes < end - begin) {
        lanes *= 2;
    }
    const int32_t groups = kWarp / lanes;
    const int32_t own = lane % lanes;
    const int32_t base = lane - own;
    const int32_t items = rows * columns;
    const bool once = end - begin <= lanes;
    const int32_t step = groups * kChannels;
    for (int64_t first = warp * step; first < count; first += kWarps * step) {
        const int64_t channel = first + lane / lanes;
        const int64_t left = channel < count ? (count - channel + groups - 1) / groups : 0;
        const int32_t channels = static_cast<int32_t>(left < kChannels ? left : kChannels);
        for (int32_t i = lane; i < items && !once; i += kWarp) {
#pragma unroll
            for (int c = 0; c < kChannels; ++c) {
                places.results[warp][c][i] = 0.0F;
            }
        }
        for (int32_t start = begin; start < end || start == begin; start += lanes) {
            const int32_t column = start + own;
            const T* const pixels = source + channel * plane + column;
            for (int32_t row = 0; row < rows; ++row) {
                const PreciseBin& bin = places.rows[row];
                float sums[kChannels] = {};
#pragma unroll 2
                for (int32_t y = bin.begin; y < bin.end; ++y) {
                    const float weight = bin.weight(y);
                    const T* pixel = pixels + int64_t{y} * width;
#pragma unroll
                    for (int c = 0; c < kChannels; ++c) {
                        sums[c] = fmaf(weight, loadFloat(pixel, c < channels && column < end), sums[c]);
                        pixel += groups * plane;
                    }
                }
#pragma unroll
                for (int c = 0; c < kChannels; ++c) {
                    places.sums[warp][c][row][lane] = sums[c];
                }
            }
            __syncwarp();
            for (int32_t i = own; i < items; i += lanes) {
                const int32_t row = i / columns;
                const PreciseBin& bin = places.columns[i - row * columns];
                const int32_t stop = bin.end < start + lanes ? bin.end : start + lanes;
                float sums[kChannels];
#pragma unroll
                for (int c = 0; c < kChannels; ++c) {
                    sums[c] = once ? 0.0F : places.results[warp][c][i];
                }
                for (int32_t x = bin.begin > start ? bin.begin : start; x < stop; ++x) {
                    const float weight = bin.weight(x);
#pragma unroll
                    for (int c = 0; c < kChannels; ++c) {
                        sums[c] = fmaf(weight, places.sums[warp][c][row][base + x - start], sums[c]);
                    }
                }
                const int64_t place = channel * a.bins + row * a.shape.outputWidth + (i - row * columns);
#pragma unroll
                for (int c = 0; c < kChannels; ++c) {
                    if (!once) {
                        places.results[warp][c][i] = sums[c];
                    }
                    if (c < channels && start + lanes >= end) {
                        target[place + c * groups * a.bins] = fromFloat<T>(sums[c] * scale);
                    }
                }
            }
            __syncwarp();
        }
    }
}

template <typename T>
__global__ void __launch_bounds__(kThreads, kBlocks) poolKernel(const __grid_constant__ Arguments a) {
    __shared__ Places places;
    const PreciseRegionPoolShape& s = a.shape;
    const int32_t thread = static_cast<int32_t>(threadIdx.x);
    for (int64_t piece = blockIdx.x; piece < s.regions * a.slices; piece += gridDim.x) {
        const int64_t slice = piece / s.regions;
        const int64_t index = piece - slice * s.regions;
        const Region region = regionOf<T>(a, index);
        const int64_t firstChannel = slice * a.sliceChannels;
        const int64_t left = s.channels - firstChannel;
        const int64_t count = left < a.sliceChannels ? left : a.sliceChannels;
        T* const target = static_cast<T*>(a.params.output) + (index * s.channels + firstChannel) * a.bins;
        if (!(region.width > 0.0)) {
            for (int64_t i = thread; i < count * a.bins; i += kThreads) {
                target[i] = fromFloat<T>(0.0F);
            }
            continue;
        }
        const T* const source =
            static_cast<const T*>(a.params.map) + (region.image * s.channels + firstChannel) * s.height * s.width;
        const float scale = static_cast<float>(1.0 / (region.width * region.height));
        for (int64_t top = 0; top < s.outputHeight; top += kRows) {
            const int32_t rows = static_cast<int32_t>(s.outputHeight - top < kRows ? s.outputHeight - top : kRows);
            for (int64_t side = 0; side < s.outputWidth; side += kColumns) {
                const int32_t columns =
                    static_cast<int32_t>(s.outputWidth - side < kColumns ? s.outputWidth - side : kColumns);
                __syncthreads();
                if (thread < rows) {
                    const double from = region.y + static_cast<double>(top + thread) * region.height;
                    places.rows[thread] = preciseBin(from, from + region.height, static_cast<int32_t>(s.height));
                } else if (thread >= kWarp && thread < kWarp + columns) {
                    const double from = region.x + static_cast<double>(side + thread - kWarp) * region.width;
                    places.columns[thread - kWarp] =
                        preciseBin(from, from + region.width, static_cast<int32_t>(s.width));
                }
                __syncthreads();
                poolTile<T>(a, places, source, target + top * s.outputWidth + side, count, rows, columns, scale);
            }
        }
    }
}

bool isValid(const PreciseRegionPoolParams& p, const PreciseRegionPoolShape& s, int64_t& outputs) {
    int64_t values = 0;
    int64_t boxes = 0;
    int64_t plane = 0;
    if (!elementCount({s.batch, s.channels, s.height, s.width}, values) || !elementCount({s.regions, 5}, boxes) ||
        !elementCount({s.height, s.width}, plane) || plane > INT32_MAX || s.height > INT32_MAX / 2 ||
        s.width > INT32_MAX / 2 || !elementCount({s.regions, s.channels, s.outputHeight, s.outputWidth}, outputs)) {
        return false;
    }
    return outputs == 0 || (p.regions != nullptr && p.output != nullptr && (values == 0 || p.map != nullptr));
}

// Channels of a block: many share the work for weights, but few regions need more blocks to be spread over a GPU.
int64_t channelsOfBlock(const PreciseRegionPoolShape& shape) {
    constexpr int64_t kMost = 64;
    constexpr int64_t kLeast = 8;
    constexpr int64_t kEnoughBlocks = 512;
    int64_t channels = kMost;
    while (channels > kLeast && shape.regions * ceilDivide(shape.channels, channels) < kEnoughBlocks) {
        channels /= 2;
    }
    return channels;
}

}  // namespace

cudaError_t preciseRegionPool(const PreciseRegionPoolParams& params, const PreciseRegionPoolShape& shape,
                              cudaStream_t stream) {
    int64_t outputs = 0;
    if (!isValid(params, shape, outputs)) {
        return cudaErrorInvalidValue;
    }
    return withFloatType(params.type, [&](auto tag) -> cudaError_t {
        using T = typename decltype(tag)::type;
        if (outputs == 0) {
            return cudaSuccess;
        }
        const int64_t channels = channelsOfBlock(shape);
        const Arguments a{params, shape, shape.outputHeight * shape.outputWidth, channels,
                          ceilDivide(shape.channels, channels)};
        return launch(poolKernel<T>, gridBlocks(shape.regions * a.slices), kThreads, 0, stream, a);
    });
}

}  // namespace trtsmith
