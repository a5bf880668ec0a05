#include "kernels/regions/region_align.cuh"

#include <algorithm>
#include <type_traits>

#include "kernels/dispatch.cuh"
#include "kernels/regions/region_channels_last.cuh"
#include "kernels/regions/region_direct.cuh"
#include "kernels/regions/region_upright.cuh"

namespace trtsmith {
namespace {

// Calls launchOf with the pooling as a template argument.
template <typename Launch>
cudaError_t withPooling(RegionPooling pooling, Launch&& launchOf) {
    switch (pooling) {
        case RegionPooling::kAverage:
            return launchOf(std::integral_constant<RegionPooling, RegionPooling::kAverage>{});
        case RegionPooling::kMaximum:
            return launchOf(std::integral_constant<RegionPooling, RegionPooling::kMaximum>{});
        case RegionPooling::kMaximumCorner:
            return launchOf(std::integral_constant<RegionPooling, RegionPooling::kMaximumCorner>{});
        default:
            return cudaErrorInvalidValue;
    }
}

int64_t elementBytes(DType type) { return type == DType::kFloat32 ? 4 : 2; }

// Whether it is worth while to lay the maps out with their channels last: that reads and writes each pixel once, and saves
// most of the time of every sample. Measured on an H200 (docs/maintainers/kernel-notes.md).
bool isWorthLayingOut(const RegionArguments& a) {
    constexpr int64_t kGuess = 2;  // samples along a side of a bin where the size of a bin decides
    const RegionAlignParams& p = a.params;
    const int64_t bytes = elementBytes(p.type);
    const int64_t side = p.samplingRatio > 0 ? p.samplingRatio : kGuess;
    const int64_t samples = a.shape.regions * a.bins * side * side;
    int64_t pixels = 0;
    for (int32_t i = 0; i < p.levelCount; ++i) {
        pixels += a.shape.batch * p.levels[i].height * p.levels[i].width;
    }
    constexpr int64_t kMostTiles = int64_t{1} << 30;  // which are counted with 32 bits
    const int64_t slices = ceilDivide(a.shape.channels, ChannelTile<4>::kChannels);
    return !p.positionSensitive && a.shape.channels * bytes % ChannelTile<4>::kLoad == 0 &&
           samples >= pixels * bytes / 4 && pixels <= kMostTiles / slices && a.shape.regions <= kMostTiles;
}

// Channels of a block: many share the work for positions, but few regions need more blocks to be spread over a GPU.
int64_t channelsOfBlock(const RegionArguments& a) {
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

int64_t frameBytes(int64_t regions) {
    constexpr int64_t kAlignment = 256;
    return ceilDivide(regions * static_cast<int64_t>(sizeof(RegionFrame)), kAlignment) * kAlignment;
}

template <typename T>
cudaError_t layOut(RegionArguments& a, void* workspace, cudaStream_t stream) {
    using Tile = ChannelTile<sizeof(T)>;
    RegionLayouts l{};
    l.channels = a.shape.channels;
    const int64_t slices = ceilDivide(l.channels, Tile::kChannels);
    l.slices = FastDivider(slices);
    l.framePieces = static_cast<int32_t>(ceilDivide(a.shape.regions, kRegionThreads));
    l.pieces = l.framePieces;
    a.frames = static_cast<RegionFrame*>(workspace);
    T* target = reinterpret_cast<T*>(static_cast<char*>(workspace) + frameBytes(a.shape.regions));
    for (int32_t i = 0; i < a.params.levelCount; ++i) {
        RegionLevel& level = a.params.levels[i];
        const int64_t plane = level.height * level.width;
        const int64_t tiles = ceilDivide(plane, Tile::kPlaces);
        const bool whole = plane % Tile::kVector == 0 && isAligned(level.data, Tile::kLoad);
        const int32_t pieces = static_cast<int32_t>(a.shape.batch * tiles * slices);
        l.levels[i] = {level.data, target, plane, FastDivider(tiles > 0 ? tiles : 1), pieces, whole};
        l.pieces += pieces;
        level.data = target;
        target += a.shape.batch * plane * l.channels;
    }
    return launch(regionLayoutKernel<T>, gridBlocks(l.pieces), kRegionThreads, 0, stream, l, a);
}

template <typename T>
cudaError_t poolLaidOut(RegionArguments& a, void* workspace, cudaStream_t stream) {
    constexpr int64_t kVector = ChannelTile<sizeof(T)>::kVector;
    const int64_t words = a.shape.channels / kVector;
    // Few regions need more blocks to be spread over a GPU.
    constexpr int64_t kEnoughRegions = 256;
    int64_t mostWords = a.shape.regions < kEnoughRegions ? kRegionSliceWords / 2 : kRegionSliceWords;
    const bool upright = mayPoolUpright(a);
    if (upright) {
        mostWords = std::min(mostWords, kUprightWords / a.bins);
    }
    const int64_t slices = ceilDivide(words, mostWords);
    const int64_t sliceWords = ceilDivide(words, slices);
    a.tiles = ceilDivide(a.bins, kRegionTileBins);
    a.tileBins = static_cast<int32_t>(ceilDivide(a.bins, a.tiles));
    a.sliceChannels = static_cast<int32_t>(sliceWords * kVector);
    a.pieces = a.shape.regions * a.tiles * ceilDivide(words, sliceWords);
    const cudaError_t status = layOut<T>(a, workspace, stream);
    if (status != cudaSuccess) {
        return status;
    }
    if (upright) {
        a.pieces = a.shape.regions * slices;
        return launchAfterTurning(regionUprightKernel<T>, gridBlocks(a.pieces), kRegionThreads,
                                  static_cast<size_t>(sliceWords * a.bins) * ChannelTile<sizeof(T)>::kLoad, stream, a);
    }
    const size_t shared = sizeof(uint32_t) * a.tileBins * regionStride(static_cast<int32_t>(sliceWords));
    return withPooling(a.params.pooling, [&](auto pooling) -> cudaError_t {
        return launch(regionWordKernel<T, decltype(pooling)::value>, gridBlocks(a.pieces), kRegionThreads, shared,
                      stream, a);
    });
}

template <typename T>
cudaError_t poolDirectly(RegionArguments& a, cudaStream_t stream) {
    a.tiles = ceilDivide(a.bins, kRegionThreads);
    a.tileBins = static_cast<int32_t>(ceilDivide(a.bins, a.tiles));
    a.sliceChannels = static_cast<int32_t>(channelsOfBlock(a));
    const int32_t slots = kRegionThreads / a.tileBins;
    a.slots = slots < a.sliceChannels ? slots : a.sliceChannels;
    a.pieces = a.shape.regions * a.tiles * ceilDivide(a.shape.channels, a.sliceChannels);
    if (mayBeSeparable(a.params)) {
        return launch(regionKernel<T, RegionPooling::kAverage, 3>, gridBlocks(a.pieces), kRegionThreads, 0, stream, a);
    }
    return withPooling(a.params.pooling, [&](auto pooling) -> cudaError_t {
        return launch(regionKernel<T, decltype(pooling)::value, 2>, gridBlocks(a.pieces), kRegionThreads, 0, stream, a);
    });
}

}  // namespace

size_t regionAlignWorkspace(const RegionAlignParams& params, const RegionAlignShape& shape) {
    int64_t frames = 0;
    if (params.positionSensitive || !elementCount({shape.regions, int64_t{sizeof(RegionFrame)}}, frames)) {
        return 0;
    }
    int64_t total = frameBytes(shape.regions);
    for (int32_t i = 0; i < params.levelCount; ++i) {
        const RegionLevel& level = params.levels[i];
        int64_t bytes = 0;
        if (!elementCount({shape.batch, shape.channels, level.height, level.width, elementBytes(params.type)}, bytes)) {
            return 0;
        }
        total += bytes;
    }
    return static_cast<size_t>(total);
}

cudaError_t regionAlign(const RegionAlignParams& params, const RegionAlignShape& shape, void* workspace,
                        cudaStream_t stream) {
    int64_t outputs = 0;
    if (!isValid(params, shape, outputs)) {
        return cudaErrorInvalidValue;
    }
    RegionArguments a{};
    a.params = params;
    a.shape = shape;
    a.bins = shape.outputHeight * shape.outputWidth;
    return withFloatType(params.type, [&](auto tag) -> cudaError_t {
        using T = typename decltype(tag)::type;
        if (outputs == 0) {
            return cudaSuccess;
        }
        return workspace != nullptr && isWorthLayingOut(a) ? poolLaidOut<T>(a, workspace, stream)
                                                           : poolDirectly<T>(a, stream);
    });
}

}  // namespace trtsmith
