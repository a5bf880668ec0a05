#include "kernels/sampling/feature_reassembly.cuh"

#include "kernels/channels_last.cuh"
#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"
#include "kernels/sampling/feature_reassembly_turned.cuh"

namespace trtsmith {
namespace {

// Channels that a thread of the kernel for channels first has.
constexpr int64_t kChannelsEach = 4;

// From maps as they are. A thread has one output pixel and kChannelsEach channels.
template <typename T>
__global__ void __launch_bounds__(kThreads) directKernel(const __grid_constant__ Arguments a) {
    const FeatureReassemblyShape& s = a.shape;
    const int64_t outWidth = s.width * s.scale;
    const int64_t plane = s.height * s.scale * outWidth;
    const int64_t ofGroup = s.channels / s.groups;
    const int64_t radius = s.kernel / 2;
    for (int64_t piece = blockIdx.x; piece < a.pieces; piece += gridDim.x) {
        const int64_t rest = piece / a.tiles;
        const int64_t place = (piece - rest * a.tiles) * kThreads + threadIdx.x;
        const int64_t image = rest / a.slices;
        const int64_t first = (rest - image * a.slices) * kChannelsEach;
        if (place >= plane) {
            continue;
        }
        const int64_t row = place / outWidth / s.scale;
        const int64_t column = place % outWidth / s.scale;
        const int64_t end = first + kChannelsEach < s.channels ? first + kChannelsEach : s.channels;
        for (int64_t channel = first; channel < end; ++channel) {
            const T* const source =
                static_cast<const T*>(a.params.x) + (image * s.channels + channel) * s.height * s.width;
            const int64_t group = image * s.groups + channel / ofGroup;
            const T* masks = static_cast<const T*>(a.params.masks) + group * s.kernel * s.kernel * plane + place;
            float sum = 0.0F;
            for (int64_t y = row - radius; y <= row + radius; ++y) {
                for (int64_t x = column - radius; x <= column + radius; ++x, masks += plane) {
                    if (y >= 0 && y < s.height && x >= 0 && x < s.width) {
                        sum = fmaf(loadFloat(source + y * s.width + x), loadFloat(masks), sum);
                    }
                }
            }
            static_cast<T*>(a.params.output)[(image * s.channels + channel) * plane + place] = fromFloat<T>(sum);
        }
    }
}

int64_t slicesOf(size_t bytes, const FeatureReassemblyShape& s) {
    return ceilDivide(s.channels / s.groups, kVectors * 16 / static_cast<int64_t>(bytes));
}

// Whether vectors of channels lie in one group each, and places and blocks fit 32 bits.
bool isTurned(size_t bytes, const FeatureReassemblyShape& s) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    int64_t pieces = 0;
    const bool fits =
        s.height <= kLongestSide && s.width <= kLongestSide && isTurnable(s.batch, s.channels, s.height * s.width) &&
        elementCount({s.batch, s.groups, slicesOf(bytes, s), s.height, ceilDivide(s.width, kPixels), s.scale * s.scale},
                     pieces);
    const bool whole = s.groups == 1 || (s.channels / s.groups) % (16 / static_cast<int64_t>(bytes)) == 0;
    return fits && pieces <= kMost / 2 && whole;
}

template <typename T, int kOutputs>
cudaError_t reassembleTurned(const Arguments& plain, void* workspace, cudaStream_t stream) {
    const FeatureReassemblyShape& s = plain.shape;
    const cudaError_t status =
        channelsLast<T>(plain.params.x, workspace, s.batch, s.channels, s.height * s.width, stream);
    if (status != cudaSuccess) {
        return status;
    }
    const int64_t slices = slicesOf(sizeof(T), s);
    const int64_t tiles = ceilDivide(s.width, kPixels);
    const int64_t parts = s.scale * s.scale / kOutputs;
    TurnedArguments a{};
    a.params = plain.params;
    a.shape = s;
    a.turned = workspace;
    a.padded = paddedChannels(s.channels, sizeof(T));
    a.each = s.groups == 1 ? a.padded : s.channels / s.groups;
    a.slices = FastDivider(slices);
    a.rows = FastDivider(s.height);
    a.tiles = FastDivider(tiles);
    a.parts = FastDivider(parts);
    a.columns = FastDivider(s.kernel);
    a.scale = FastDivider(s.scale);
    a.pieces = static_cast<int32_t>(s.batch * s.groups * slices * s.height * tiles * parts);
    a.pairs = isAligned(plain.params.output, 2 * sizeof(T));
    return launchAfterTurning(turnedKernel<T, kOutputs>, gridBlocks(a.pieces), kThreads, 0, stream, a);
}

template <typename T>
cudaError_t reassemble(Arguments& a, void* workspace, cudaStream_t stream) {
    const FeatureReassemblyShape& s = a.shape;
    if (isTurned(sizeof(T), s)) {
        return s.scale % 2 == 0 ? reassembleTurned<T, 4>(a, workspace, stream)
                                : reassembleTurned<T, 1>(a, workspace, stream);
    }
    a.slices = ceilDivide(s.channels, kChannelsEach);
    a.tiles = ceilDivide(s.height * s.scale * s.width * s.scale, kThreads);
    a.pieces = s.batch * a.slices * a.tiles;
    return launch(directKernel<T>, gridBlocks(a.pieces), kThreads, 0, stream, a);
}

bool isValid(const FeatureReassemblyParams& p, const FeatureReassemblyShape& s, int64_t& outputs) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    int64_t inputs = 0;
    int64_t masks = 0;
    int64_t padded = 0;
    if (s.kernel < 1 || s.kernel > kMaxReassemblyKernel || s.kernel % 2 == 0 || s.scale < 1 ||
        s.scale > kMaxReassemblyScale || s.groups < 1 || s.groups > kMaxElements || s.channels < 0 ||
        s.channels > kMaxElements || s.channels % s.groups != 0 || s.height < 0 || s.width < 0 ||
        s.height > kMost / s.scale || s.width > kMost / s.scale ||
        !elementCount({s.batch, s.channels, s.height, s.width}, inputs) ||
        !elementCount({s.batch, s.channels + 8, s.height, s.width}, padded) ||
        !elementCount({s.batch, s.groups, s.kernel * s.kernel, s.height * s.scale, s.width * s.scale}, masks) ||
        !elementCount({s.batch, s.channels, s.height * s.scale, s.width * s.scale}, outputs)) {
        return false;
    }
    return outputs == 0 || (p.x != nullptr && p.masks != nullptr && p.output != nullptr);
}

}  // namespace

// Also where the maps are not turned: TensorRT asks once, with the largest shape, and smaller ones may be.
size_t featureReassemblyWorkspace(DType type, const FeatureReassemblyShape& shape) {
    const size_t bytes = bytesOf(type);
    int64_t count = 0;
    const bool fits = shape.groups > 0 && shape.scale > 0 && shape.scale <= kMaxReassemblyScale &&
                      shape.channels >= 0 && shape.channels <= kMaxElements &&
                      elementCount({shape.batch, paddedChannels(shape.channels, bytes), shape.height, shape.width,
                                    static_cast<int64_t>(bytes)},
                                   count);
    return fits ? static_cast<size_t>(count) : 0;
}

cudaError_t featureReassembly(const FeatureReassemblyParams& params, const FeatureReassemblyShape& shape,
                              void* workspace, cudaStream_t stream) {
    int64_t outputs = 0;
    if (!isValid(params, shape, outputs) ||
        (outputs > 0 && workspace == nullptr && isTurned(bytesOf(params.type), shape))) {
        return cudaErrorInvalidValue;
    }
    Arguments a{params, shape, 0, 0, 0};
    return withFloatType(params.type, [&](auto tag) -> cudaError_t {
        using T = typename decltype(tag)::type;
        return outputs == 0 ? cudaSuccess : reassemble<T>(a, workspace, stream);
    });
}

}  // namespace trtsmith
