#include "kernels/regions/region_align.cuh"

#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"
#include "kernels/regions/region_cells.cuh"
#include "kernels/regions/region_frame.cuh"
#include "kernels/regions/region_rows.cuh"

namespace trtsmith {
namespace {

constexpr int kThreads = 256;
constexpr int kCells = 1024;  // samples of a block that are in shared memory at a time, 16 KiB

// A block owns one region, a tile of its bins and a slice of the channels. It works out every sample of the tile once,
// into shared memory, and then reads them for all channels of the slice: neighbouring threads are neighbouring bins, whose
// samples are near one another, and the results of a block are consecutive.
struct Arguments {
    RegionAlignParams params;
    RegionAlignShape shape;
    int64_t bins;           // of a region
    int32_t tileBins;       // of a tile
    int32_t slots;          // channels of a tile that are computed at once, one a thread
    int32_t sliceChannels;  // of a slice
    int64_t tiles;
    int64_t pieces;  // regions * tiles * slices, regions innermost: blocks side by side read the same channels
};

// The cells of `count` samples of each bin of the tile, beginning with sample `first`: [sample][bin], so that threads side
// by side read words side by side.
template <typename T>
__device__ inline void fillCells(const Arguments& a, const RegionFrame& frame, int64_t region, int64_t firstBin,
                                 int32_t bins, int64_t first, int32_t count, RegionCell* cells) {
    const T* offsets = static_cast<const T*>(a.params.offsets);
    for (int32_t item = static_cast<int32_t>(threadIdx.x); item < bins * count;
         item += static_cast<int32_t>(blockDim.x)) {
        const int32_t sample = item / bins;
        const int64_t bin = firstBin + (item - sample * bins);
        const int64_t row = bin / a.shape.outputWidth;
        double shiftY = 0.0;
        double shiftX = 0.0;
        if (offsets != nullptr) {
            const T* offset = offsets + region * 2 * a.bins + bin;
            shiftX = static_cast<double>(a.params.offsetScale) * frame.sizeX * loadFloat(offset);
            shiftY = static_cast<double>(a.params.offsetScale) * frame.sizeY * loadFloat(offset + a.bins);
        }
        cells[item] = regionSample(frame, row, bin - row * a.shape.outputWidth, first + sample, shiftY, shiftX);
    }
}

template <typename T>
__device__ __noinline__ RegionFrame frameOf(const Arguments& a, int64_t region) {
    const int32_t numbers = a.params.boxes == RegionBoxes::kRotated ? 6 : 5;
    const T* source = static_cast<const T*>(a.params.regions) + region * numbers;
    float box[6];
    for (int32_t i = 0; i < 6; ++i) {
        box[i] = loadFloat(source + (i < numbers ? i : 0));
    }
    return regionFrame(a.params, a.shape, box);
}

template <typename T, RegionPooling kPooling>
__device__ inline void poolRegion(const Arguments& a, const RegionFrame& frame, int64_t region, int64_t firstBin,
                                  int64_t firstChannel, RegionCell* cells) {
    const int32_t bins = static_cast<int32_t>(a.bins - firstBin < a.tileBins ? a.bins - firstBin : a.tileBins);
    const int32_t slot = static_cast<int32_t>(threadIdx.x) / bins;
    const int64_t bin = firstBin + (static_cast<int32_t>(threadIdx.x) - slot * bins);
    const int64_t left = a.shape.channels - firstChannel;
    const int64_t channels = left < a.sliceChannels ? left : a.sliceChannels;
    const int64_t samples = frame.empty ? 0 : int64_t{frame.mostY} * frame.mostX;
    const int32_t chunk = kCells / bins;
    // Of all samples, those that no thread looks at are outside of the map.
    const bool someOutside = !frame.empty && (frame.mostY < frame.gridY || frame.mostX < frame.gridX);
    const float lowest = someOutside ? 0.0F : -INFINITY;
    const int64_t plane = int64_t{frame.height} * frame.width;
    const int64_t inputs = a.params.positionSensitive ? a.bins : 1;  // input channels for an output channel
    const float scale = frame.empty ? 0.0F : static_cast<float>(1.0 / (frame.gridY * frame.gridX));

    for (int64_t round = 0; round < channels; round += int64_t{a.slots} * kRegionCellChannels) {
        const int64_t channel = round + slot;
        RegionLane<T> lane{};
        lane.stride = inputs * a.slots * plane;
        if (slot < a.slots && channel < channels) {
            const int64_t mine = (channels - channel + a.slots - 1) / a.slots;
            lane.count = static_cast<int32_t>(mine < kRegionCellChannels ? mine : kRegionCellChannels);
            const int64_t input = (frame.image * a.shape.channels + firstChannel + channel) * inputs;
            lane.source = static_cast<const T*>(frame.data) + (input + (inputs > 1 ? bin : 0)) * plane;
        }
        float sums[kRegionCellChannels];
#pragma unroll
        for (int j = 0; j < kRegionCellChannels; ++j) {
            sums[j] = kPooling == RegionPooling::kAverage ? 0.0F : lowest;
        }
        for (int64_t first = 0; first < samples; first += chunk) {
            const int32_t count = static_cast<int32_t>(samples - first < chunk ? samples - first : chunk);
            if (round == 0 || samples > chunk) {  // otherwise they are those of the round before
                __syncthreads();
                fillCells<T>(a, frame, region, firstBin, bins, first, count, cells);
                __syncthreads();
            }
            if (lane.count > 0) {
                const RegionCell* cell = cells + (bin - firstBin);
                for (int32_t sample = 0; sample < count; ++sample, cell += bins) {
                    addRegionSample<T, kPooling>(*cell, lane, frame.width, sums);
                }
            }
        }
        T* target =
            static_cast<T*>(a.params.output) + (region * a.shape.channels + firstChannel + channel) * a.bins + bin;
#pragma unroll
        for (int j = 0; j < kRegionCellChannels; ++j) {
            if (j < lane.count) {
                const float value = kPooling == RegionPooling::kAverage ? sums[j] * scale : sums[j];
                target[j * a.slots * a.bins] = fromFloat<T>(frame.empty ? 0.0F : value);
            }
        }
    }
}

// Whether a block sums rows and columns apart, if the region is one for it.
template <RegionPooling kPooling>
__device__ inline bool isSeparable(const Arguments& a, const RegionFrame& frame) {
    const RegionAlignParams& p = a.params;
    return kPooling == RegionPooling::kAverage && p.boxes == RegionBoxes::kCorners && p.offsets == nullptr &&
           !p.positionSensitive && a.tiles == 1 && rowsFit(frame, a.shape.outputHeight, kCells);
}

template <typename T>
__device__ inline void poolRegionByRows(const Arguments& a, const RegionFrame& frame, int64_t region,
                                        int64_t firstChannel, RegionRow* rows) {
    const int32_t count = static_cast<int32_t>(a.shape.outputHeight) * frame.mostY;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < count; i += static_cast<int32_t>(blockDim.x)) {
        rows[i] = regionRow(frame, i / frame.mostY, i % frame.mostY);
    }
    __syncthreads();
    const int64_t left = a.shape.channels - firstChannel;
    const int64_t plane = int64_t{frame.height} * frame.width;
    poolSeparable(frame, rows,
                  static_cast<const T*>(frame.data) + (frame.image * a.shape.channels + firstChannel) * plane,
                  static_cast<T*>(a.params.output) + (region * a.shape.channels + firstChannel) * a.bins,
                  left < a.sliceChannels ? left : a.sliceChannels, a.shape.outputHeight, a.shape.outputWidth);
}

template <typename T, RegionPooling kPooling>
__global__ void __launch_bounds__(kThreads, 3) regionKernel(const __grid_constant__ Arguments a) {
    static_assert(sizeof(RegionCell) == sizeof(RegionRow) && alignof(RegionCell) == alignof(RegionRow));
    __shared__ union {
        RegionCell cells[kCells];
        RegionRow rows[kCells];
    } places;
    __shared__ RegionFrame frame;
    for (int64_t piece = blockIdx.x; piece < a.pieces; piece += gridDim.x) {
        const int64_t rest = piece / a.shape.regions;
        const int64_t region = piece - rest * a.shape.regions;
        const int64_t slice = rest / a.tiles;
        __syncthreads();
        if (threadIdx.x == 0) {
            frame = frameOf<T>(a, region);
        }
        __syncthreads();
        if (isSeparable<kPooling>(a, frame)) {
            poolRegionByRows<T>(a, frame, region, slice * a.sliceChannels, places.rows);
        } else {
            const int64_t firstBin = (rest - slice * a.tiles) * a.tileBins;
            poolRegion<T, kPooling>(a, frame, region, firstBin, slice * a.sliceChannels, places.cells);
        }
    }
}

template <typename T>
cudaError_t launchRegions(const Arguments& a, cudaStream_t stream) {
    switch (a.params.pooling) {
        case RegionPooling::kAverage:
            return launch(regionKernel<T, RegionPooling::kAverage>, gridBlocks(a.pieces), kThreads, 0, stream, a);
        case RegionPooling::kMaximum:
            return launch(regionKernel<T, RegionPooling::kMaximum>, gridBlocks(a.pieces), kThreads, 0, stream, a);
        case RegionPooling::kMaximumCorner:
            return launch(regionKernel<T, RegionPooling::kMaximumCorner>, gridBlocks(a.pieces), kThreads, 0, stream, a);
        default:
            return cudaErrorInvalidValue;
    }
}

// Channels of a block: many share the work for positions, but few regions need more blocks to be spread over a GPU.
int64_t channelsOfBlock(const Arguments& a) {
    constexpr int64_t kMost = 64;
    constexpr int64_t kLeast = 8;
    constexpr int64_t kEnoughBlocks = 512;
    int64_t channels = kMost;
    while (channels > kLeast && a.shape.regions * a.tiles * ceilDivide(a.shape.channels, channels) < kEnoughBlocks) {
        channels /= 2;
    }
    return ceilDivide(a.shape.channels, ceilDivide(a.shape.channels, channels));
}

// Sizes that do not overflow, and no null pointer to a tensor that has elements.
bool isValid(const RegionAlignParams& params, const RegionAlignShape& shape, int64_t& outputs) {
    constexpr int64_t kMaxPlane = std::numeric_limits<int32_t>::max();
    const int64_t numbers = params.boxes == RegionBoxes::kRotated ? 6 : 5;
    int64_t boxes = 0;
    int64_t offsets = 0;
    int64_t inputChannels = shape.channels;
    if (!elementCount({shape.regions, numbers}, boxes) ||
        !elementCount({shape.regions, 2, shape.outputHeight, shape.outputWidth}, offsets) ||
        !elementCount({shape.regions, shape.channels, shape.outputHeight, shape.outputWidth}, outputs)) {
        return false;
    }
    if (params.positionSensitive &&
        !elementCount({shape.channels, shape.outputHeight, shape.outputWidth}, inputChannels)) {
        return false;
    }
    if (params.levelCount < 1 || params.levelCount > kMaxRegionLevels || params.samplingRatio > kMaxRegionSamples) {
        return false;
    }
    for (int32_t i = 0; i < params.levelCount; ++i) {
        const RegionLevel& level = params.levels[i];
        int64_t plane = 0;
        int64_t values = 0;
        if (level.height > kMaxPlane || level.width > kMaxPlane || !elementCount({level.height, level.width}, plane) ||
            plane > kMaxPlane || !elementCount({shape.batch, inputChannels, level.height, level.width}, values) ||
            (values > 0 && outputs > 0 && level.data == nullptr)) {
            return false;
        }
    }
    return outputs == 0 || (params.regions != nullptr && params.output != nullptr);
}

}  // namespace

cudaError_t regionAlign(const RegionAlignParams& params, const RegionAlignShape& shape, cudaStream_t stream) {
    int64_t outputs = 0;
    if (!isValid(params, shape, outputs)) {
        return cudaErrorInvalidValue;
    }
    Arguments a{};
    a.params = params;
    a.shape = shape;
    a.bins = shape.outputHeight * shape.outputWidth;
    return withFloatType(params.type, [&](auto tag) -> cudaError_t {
        using T = typename decltype(tag)::type;
        if (outputs == 0) {
            return cudaSuccess;
        }
        a.tiles = ceilDivide(a.bins, kThreads);
        a.tileBins = static_cast<int32_t>(ceilDivide(a.bins, a.tiles));
        a.sliceChannels = static_cast<int32_t>(channelsOfBlock(a));
        const int32_t slots = kThreads / a.tileBins;
        a.slots = slots < a.sliceChannels ? slots : a.sliceChannels;
        a.pieces = shape.regions * a.tiles * ceilDivide(shape.channels, a.sliceChannels);
        return launchRegions<T>(a, stream);
    });
}

}  // namespace trtsmith
