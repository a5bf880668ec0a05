// How grouped deformable sampling is cut into tiles. Host code.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "kernels/dispatch.cuh"
#include "kernels/sampling/grouped_deformable_sampling_fill.cuh"
#include "kernels/sampling/grouped_deformable_sampling_tiles.cuh"

namespace trtsmith {

struct TileSize {
    int32_t height;  // output pixels
    int32_t width;
    int32_t threads;
    int32_t halo;  // pixels that an offset may lead away from its tap without leaving the region
};

struct TileLaunch {
    GroupedTileArguments arguments;
    int64_t blocks;
    int64_t sharedBytes;
    int32_t threads;
};

// Of the current device.
struct TileDevice {
    int multiprocessors;
    int blockSharedBytes;  // at most
};

inline cudaError_t tileDevice(TileDevice& device) {
    int number = 0;
    cudaError_t error = cudaGetDevice(&number);
    for (const auto& [attribute, target] :
         {std::pair{cudaDevAttrMultiProcessorCount, &device.multiprocessors},
          std::pair{cudaDevAttrMaxSharedMemoryPerBlockOptin, &device.blockSharedBytes}}) {
        if (error == cudaSuccess) {
            error = cudaDeviceGetAttribute(target, attribute, number);
        }
    }
    return error;
}

// The region's side for `outputs` neighbouring outputs whose taps reach that many pixels away; -1 where it is absurd.
inline int32_t regionSide(int32_t outputs, int64_t stride, float reach, int32_t halo) {
    constexpr int64_t kMost = 256;
    if (!(reach <= static_cast<float>(kMost)) || stride > kMost) {
        return -1;
    }
    const int64_t side = (outputs - 1) * stride + 2 * (static_cast<int64_t>(std::ceil(reach)) + halo) + 1;
    return side <= kMost ? static_cast<int32_t>(side) : -1;
}

// Whether offsets or mask of every pixel's slice begin where a piece may.
inline bool hasPieces(const TileNumbers& numbers) {
    return isAligned(numbers.source, kPieceBytes) && numbers.distance % kPieceBytes == 0 &&
           numbers.slice % kPieceBytes == 0;
}

// False where tiles of that size cannot be.
template <typename T>
bool tileLaunch(const GroupedWordArguments& w, const TileSize& size, TileLaunch& result) {
    const GroupedSamplingArguments& common = w.common;
    const GroupedDeformableSamplingShape& s = common.shape;
    const float reachDown = std::fabs(common.down.start);
    const float reachAcross = std::fabs(common.across.start);
    const int32_t regionHeight = regionSide(size.height, s.strideHeight, reachDown, size.halo);
    const int32_t regionWidth = regionSide(size.width, s.strideWidth, reachAcross, size.halo);
    if (regionHeight < 0 || regionWidth < 0 || regionWidth > size.threads / kSliceWords) {
        return false;
    }
    const int32_t bytes = static_cast<int32_t>(sizeof(T));
    const int32_t sliceGroups = std::max(1, kSliceWords / static_cast<int32_t>(w.groupWords.divisor));
    const int32_t offsetGroup = static_cast<int32_t>(common.offsetGroup) * bytes;
    const int32_t maskGroup = s.maskApart ? common.taps * bytes : 0;
    GroupedTileArguments& t = result.arguments;
    t.words = w;
    t.offsets = {static_cast<const char*>(common.params.offset), s.offsetChannels * bytes, s.groups * offsetGroup,
                 offsetGroup, sliceGroups * offsetGroup};
    t.mask = {static_cast<const char*>(common.params.mask), s.groups * maskGroup, s.groups * maskGroup, maskGroup,
              sliceGroups * maskGroup};
    t.weights = s.maskApart ? t.offsets.slice : 2 * common.taps * bytes;
    t.weightsGroup = s.maskApart ? maskGroup : offsetGroup;
    t.pieces = hasPieces(t.offsets) && (!s.maskApart || hasPieces(t.mask));
    t.tileHeight = size.height;
    t.tileWidth = FastDivider(size.width);
    t.regionHeight = regionHeight;
    t.regionWidth = FastDivider(regionWidth);
    t.fillLines = size.threads / kSliceWords / regionWidth;
    t.startDown = static_cast<int32_t>(common.originDown) - static_cast<int32_t>(std::ceil(reachDown)) - size.halo;
    t.startAcross =
        static_cast<int32_t>(common.originAcross) - static_cast<int32_t>(std::ceil(reachAcross)) - size.halo;
    t.slices = FastDivider(ceilDivide(w.pixelWords.divisor, kSliceWords));
    t.tilesAcross = FastDivider(ceilDivide(s.outWidth, size.width));
    t.tilesDown = FastDivider(ceilDivide(s.outHeight, size.height));
    result.blocks = s.batch * t.tilesDown.divisor * t.tilesAcross.divisor * t.slices.divisor;
    result.sharedBytes = int64_t{regionHeight} * regionWidth * kSliceBytes +
                         int64_t{size.height} * size.width * (t.offsets.slice + t.mask.slice);
    result.threads = size.threads;
    return true;
}

// Whether a thread's two words always belong to one group, and a slice to one or to several whole ones.
inline bool hasSlices(const GroupedWordArguments& w) {
    const uint32_t groupWords = w.groupWords.divisor;
    return w.common.shape.kernelHeight == 3 && w.common.shape.kernelWidth == 3 && groupWords % kPartWords == 0 &&
           (kSliceWords % groupWords == 0 || groupWords % kSliceWords == 0);
}

// Clocks of the busiest multiprocessor of an H200, about: of sampling eight pixels, of a pixel of the region, of a block.
// What it picks is within 5 % of the fastest of 23 sizes and halos measured, in each of the benchmarks' cases and types.
inline int64_t tileCost(const TileLaunch& launch, const TileDevice& device) {
    constexpr int64_t kStep = 580;
    constexpr int64_t kRegionPixel = 4;
    constexpr int64_t kBlock = 300;
    const GroupedTileArguments& t = launch.arguments;
    const int64_t steps = ceilDivide(int64_t{t.tileHeight} * t.tileWidth.divisor, 8);
    const int64_t region = int64_t{t.regionHeight} * t.regionWidth.divisor;
    return ceilDivide(launch.blocks, device.multiprocessors) * (steps * kStep + region * kRegionPixel + kBlock);
}

// The cheapest tiles; false where there are none.
template <typename T>
bool chooseTiles(const GroupedWordArguments& w, const TileDevice& device, TileLaunch& best) {
    constexpr TileSize kSizes[] = {{14, 14, 416, 4}, {8, 14, 448, 4}, {7, 14, 416, 4}, {8, 8, 256, 5},
                                   {7, 7, 224, 5},   {4, 8, 192, 4},  {4, 4, 128, 4}};
    if (!hasSlices(w)) {
        return false;
    }
    bool found = false;
    for (const TileSize& size : kSizes) {
        TileLaunch candidate{};
        if (tileLaunch<T>(w, size, candidate) && candidate.sharedBytes <= device.blockSharedBytes &&
            (!found || tileCost(candidate, device) < tileCost(best, device))) {
            best = candidate;
            found = true;
        }
    }
    return found;
}

template <typename T, int kTaps>
cudaError_t launchTiles(const TileLaunch& tiles, cudaStream_t stream) {
    const auto kernel = groupedTileKernel<T, kTaps>;
    const cudaError_t error = allowSharedBytes(kernel, static_cast<int>(tiles.sharedBytes));
    if (error != cudaSuccess) {
        return error;
    }
    return launch(kernel, gridBlocks(tiles.blocks), static_cast<unsigned int>(tiles.threads),
                  static_cast<size_t>(tiles.sharedBytes), stream, tiles.arguments);
}

}  // namespace trtsmith
