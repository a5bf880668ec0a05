#include "kernels/sampling/volume_sampling.cuh"

#include "kernels/channels_last.cuh"
#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"
#include "kernels/sampling/volume_sampling_turned.cuh"

namespace trtsmith {
namespace {

// Channels that a thread of the kernel for channels first has: its point's position is computed once for them.
constexpr int32_t kChannelsEach = 8;

// From volumes as they are. A thread has one point and kChannelsEach channels. Index: counts the voxels of a volume.
template <typename T, bool kNearest, typename Index>
__global__ void __launch_bounds__(kThreads) directKernel(const __grid_constant__ Arguments a) {
    using Cell = VolumeCell<kNearest>;
    const VolumeSamplingShape& s = a.shape;
    const Index width = static_cast<Index>(s.width);
    const Index slab = static_cast<Index>(s.height) * width;
    const int64_t voxels = s.depth * slab;
    for (int32_t piece = static_cast<int32_t>(blockIdx.x); piece < a.pieces; piece += static_cast<int32_t>(gridDim.x)) {
        const int32_t rest = a.tiles.quotient(piece);
        const int64_t point = int64_t{piece - rest * static_cast<int32_t>(a.tiles.divisor)} * kThreads +
                              static_cast<int32_t>(threadIdx.x);
        const int32_t image = a.slices.quotient(rest);
        const int64_t channel = int64_t{rest - image * static_cast<int32_t>(a.slices.divisor)} * kChannelsEach;
        if (point >= s.points) {
            continue;
        }
        VolumePlace places[3];
#pragma unroll
        for (int32_t axis = 0; axis < 3; ++axis) {
            places[axis] = placeOf<T, kNearest>(a, image * s.points + point, axis);
        }
        const Cell cell = cellOf<kNearest>(a, places);
        const Index first = (places[2].low * static_cast<Index>(s.height) + places[1].low) * width + places[0].low;
        const int32_t count = least(s.channels - channel, kChannelsEach);
        const int64_t row = image * s.channels + channel;
        const T* volume = static_cast<const T*>(a.params.x) + row * voxels;
        T* target = static_cast<T*>(a.params.output) + row * s.points + point;
#pragma unroll 2
        for (int32_t c = 0; c < count; ++c) {
            float sum = 0.0F;
            float values[Cell::kCorners];
#pragma unroll
            for (int i = 0; i < Cell::kCorners; ++i) {
                values[i] = 0.0F;
                if ((cell.exists >> i & 1U) != 0U) {
                    values[i] = loadFloat(volume + (first + (i >> 2) * slab + ((i >> 1) & 1) * width + (i & 1)));
                }
            }
#pragma unroll
            for (int i = 0; i < Cell::kCorners; ++i) {
                sum = fmaf(cell.weights[i], values[i], sum);
            }
            *target = fromFloat<T>(sum);
            target += s.points;
            volume += voxels;
        }
    }
}

constexpr int64_t kVoxelsOfPoint = 4;

// Turning pays where a voxel is read for several channels at once, and where there are not many more voxels than points:
// it moves every voxel twice, as much as a point's eight reads of one channel.
bool isTurned(size_t bytes, const VolumeSamplingShape& s) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    const int64_t vector = 16 / static_cast<int64_t>(bytes);
    const int64_t voxels = s.depth * s.height * s.width;
    const int64_t vectors = ceilDivide(s.channels, vector);
    return s.channels >= vector && s.points >= voxels / kVoxelsOfPoint &&
           (s.height + 1) * s.width + 1 <= kMost / vectors && voxels <= kMost / vectors &&
           isTurnable(s.batch, s.channels, voxels) && isTurnable(s.batch, s.channels, s.points);
}

template <typename T, bool kNearest>
cudaError_t sampleTurned(const Arguments& plain, void* workspace, cudaStream_t stream) {
    using Tile = ChannelTile<sizeof(T)>;
    const VolumeSamplingShape& s = plain.shape;
    const int64_t voxels = s.depth * s.height * s.width;
    const cudaError_t status = channelsLast<T>(plain.params.x, workspace, s.batch, s.channels, voxels, stream);
    if (status != cudaSuccess) {
        return status;
    }
    TurnedArguments a{};
    a.plain = plain;
    a.turned = static_cast<const uint4*>(workspace);
    a.vectors = static_cast<int32_t>(ceilDivide(s.channels, Tile::kVector));
    a.row = static_cast<int32_t>(s.width * a.vectors);
    a.slab = static_cast<int32_t>(s.height * a.row);
    const int64_t slices = ceilDivide(s.channels, Tile::kChannels);
    const int64_t tiles = ceilDivide(s.points, kPoints);
    a.plain.slices = FastDivider(slices);
    a.plain.tiles = FastDivider(tiles);
    a.plain.pieces = static_cast<int32_t>(s.batch * slices * tiles);
    while ((1 << a.groupShift) < Tile::kChannels / Tile::kVector && (1 << a.groupShift) < a.vectors) {
        ++a.groupShift;
    }
    a.pairs = s.points % 2 == 0 && isAligned(plain.params.output, 4);
    const auto kernel =
        s.channels % Tile::kChannels == 0 ? turnedKernel<T, kNearest, true> : turnedKernel<T, kNearest, false>;
    return launchAfterTurning(kernel, gridBlocks(ceilDivide(a.plain.pieces, kTurnedWarps)), kTurnedWarps * kWarp, 0,
                              stream, a);
}

template <typename T, bool kNearest>
cudaError_t sample(Arguments& a, void* workspace, cudaStream_t stream) {
    const VolumeSamplingShape& s = a.shape;
    if (isTurned(sizeof(T), s)) {
        return sampleTurned<T, kNearest>(a, workspace, stream);
    }
    const int64_t slices = ceilDivide(s.channels, kChannelsEach);
    const int64_t tiles = ceilDivide(s.points, kThreads);
    a.slices = FastDivider(slices);
    a.tiles = FastDivider(tiles);
    a.pieces = static_cast<int32_t>(s.batch * slices * tiles);
    const bool isShort = s.depth * s.height * s.width <= std::numeric_limits<int32_t>::max();
    const auto kernel = isShort ? directKernel<T, kNearest, int32_t> : directKernel<T, kNearest, int64_t>;
    return launch(kernel, gridBlocks(a.pieces), kThreads, 0, stream, a);
}

bool isValid(const VolumeSamplingParams& p, const VolumeSamplingShape& s, int64_t& outputs) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    int64_t inputs = 0;
    int64_t padded = 0;
    int64_t points = 0;
    if (s.depth > kMost || s.height > kMost || s.width > kMost ||
        !elementCount({s.batch, s.channels, s.depth, s.height, s.width}, inputs) || s.channels > kMaxElements ||
        !elementCount({s.batch, s.channels + 8, s.depth, s.height, s.width}, padded) ||
        !elementCount({s.batch, s.points, 3}, points) || !elementCount({s.batch, s.channels, s.points}, outputs)) {
        return false;
    }
    // A block has at least kThreads points, or a tile of 64 with 32 channels.
    int64_t blocks = 0;
    if (!elementCount({s.batch, s.channels, ceilDivide(s.points, kThreads)}, blocks) || blocks > kMost / 2) {
        return false;
    }
    const bool hasInputs = (inputs == 0 || p.x != nullptr) && (points == 0 || p.grid != nullptr);
    return outputs == 0 || (hasInputs && p.output != nullptr);
}

}  // namespace

// Enough for every smaller shape, too: TensorRT asks once, with the largest, and a smaller volume may be turned where the largest
// has too many voxels for its points.
size_t volumeSamplingWorkspace(DType type, const VolumeSamplingShape& shape) {
    const size_t bytes = bytesOf(type);
    int64_t voxels = 0;
    int64_t count = 0;
    const bool sizes = shape.channels >= static_cast<int64_t>(16 / bytes) && shape.channels <= kMaxElements &&
                       shape.points >= 0 && shape.points <= kMaxElements &&
                       elementCount({shape.depth, shape.height, shape.width}, voxels);
    const int64_t most = kVoxelsOfPoint * shape.points + kVoxelsOfPoint - 1;
    const bool fits = sizes && elementCount({shape.batch, paddedChannels(shape.channels, bytes),
                                             voxels < most ? voxels : most, static_cast<int64_t>(bytes)},
                                            count);
    return fits ? static_cast<size_t>(count) : 0;
}

cudaError_t volumeSampling(const VolumeSamplingParams& params, const VolumeSamplingShape& shape, void* workspace,
                           cudaStream_t stream) {
    int64_t outputs = 0;
    if (!isValid(params, shape, outputs) ||
        (outputs > 0 && workspace == nullptr && isTurned(bytesOf(params.type), shape))) {
        return cudaErrorInvalidValue;
    }
    Arguments a{params, shape, FastDivider(), FastDivider(), 0};
    return withFloatType(params.type, [&](auto tag) -> cudaError_t {
        using T = typename decltype(tag)::type;
        if (outputs == 0) {
            return cudaSuccess;
        }
        return shape.nearest ? sample<T, true>(a, workspace, stream) : sample<T, false>(a, workspace, stream);
    });
}

}  // namespace trtsmith
