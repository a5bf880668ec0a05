#include "kernels/sampling/grouped_deformable_sampling.cuh"

#include "kernels/bilinear.cuh"
#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"
#include "kernels/sampling/grouped_deformable_sampling_arguments.cuh"
#include "kernels/sampling/grouped_deformable_sampling_plan.cuh"
#include "kernels/sampling/grouped_deformable_sampling_words.cuh"

namespace trtsmith {
namespace {

// One output element of any sizes and alignment: a tap at a time, neighbour by neighbour.
template <typename T>
__device__ float sampleElement(const GroupedSamplingArguments& a, int64_t pixel, int64_t channel) {
    const GroupedDeformableSamplingShape& s = a.shape;
    const int64_t group = channel / (s.channels / s.groups);
    const int64_t line = pixel / s.outWidth;
    const int64_t image = line / s.outHeight;
    const int32_t y = static_cast<int32_t>(a.originDown + (line - image * s.outHeight) * s.strideHeight);
    const int32_t x = static_cast<int32_t>(a.originAcross + (pixel - line * s.outWidth) * s.strideWidth);
    const T* offsets = offsetsOf<T>(a, pixel, group);
    const T* weights = weightsOf<T>(a, pixel, group);
    const T* values = static_cast<const T*>(a.params.x) + image * s.height * s.width * s.channels + channel;
    float sum = 0.0F;
    int64_t t = 0;
    for (int32_t i = 0; i < static_cast<int32_t>(s.kernelWidth); ++i) {
        for (int32_t j = 0; j < static_cast<int32_t>(s.kernelHeight); ++j) {
            if (int64_t{i} * s.kernelHeight + j == a.centre) {
                continue;
            }
            const float shiftX = tapShift(a.across, i, loadFloat(offsets + 2 * t), s.offsetScale);
            const float shiftY = tapShift(a.down, j, loadFloat(offsets + 2 * t + 1), s.offsetScale);
            const float weight = loadFloat(weights + t);
            ++t;
            const BilinearCell cell =
                bilinearCell(y, shiftY, x, shiftX, static_cast<int32_t>(s.height), static_cast<int32_t>(s.width));
            const T* first = values + (int64_t{cell.row} * s.width + cell.column) * s.channels;
#pragma unroll
            for (int corner = 0; corner < 4; ++corner) {
                const bool valid = (cell.valid >> corner & 1U) != 0U;
                const int64_t step = ((corner & 2) != 0 ? s.width : 0) + (corner & 1);
                const float factor = valid ? weight * cell.weights[corner] : 0.0F;
                sum = fmaf(factor, loadFloat(first + step * s.channels, valid), sum);
            }
        }
    }
    return sum;
}

template <typename T>
__global__ void __launch_bounds__(kGroupedThreads) elementKernel(const GroupedSamplingArguments a, int64_t elements) {
    const int64_t stride = int64_t{gridDim.x} * kGroupedThreads;
    for (int64_t i = int64_t{blockIdx.x} * kGroupedThreads + threadIdx.x; i < elements; i += stride) {
        const int64_t pixel = i / a.shape.channels;
        const float sum = sampleElement<T>(a, pixel, i - pixel * a.shape.channels);
        static_cast<T*>(a.params.output)[i] = fromFloat<T>(sum);
    }
}

bool isSide(int64_t size, int64_t most) { return size >= 0 && size <= most; }

// Rows or columns of an output that the input has room for, as places of 32 bits.
bool isAxis(int64_t size, int64_t outputs, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
    constexpr int64_t kMost = kMaxGroupedSamplingSide;
    if (!isSide(size, kMost) || !isSide(padding, kMost) || outputs < 0 || outputs > 4 * kMost || stride < 1 ||
        stride > std::numeric_limits<int32_t>::max() || kernel < 1 || dilation < 1 || kernel - 1 > kMost / dilation) {
        return false;
    }
    return outputs <= 1 || (outputs - 1) * stride < size + 2 * padding - (kernel - 1) * dilation;
}

// Sizes that do not overflow, and no null pointer to a tensor that has elements.
bool isValid(const GroupedDeformableSamplingParams& params, const GroupedDeformableSamplingShape& s, int64_t taps,
             int64_t& outputs) {
    int64_t values = 0;
    int64_t offsets = 0;
    int64_t grouped = 0;
    const int64_t numbers = s.maskApart ? 2 : 3;
    if (s.groups < 1 || s.channels < 0 || s.channels % s.groups != 0 || taps > std::numeric_limits<int32_t>::max() ||
        !elementCount({s.batch, s.height, s.width, s.channels}, values) ||
        !elementCount({s.batch, s.outHeight, s.outWidth, s.channels}, outputs) ||
        !elementCount({s.batch, s.outHeight, s.outWidth, s.offsetChannels}, offsets) ||
        !elementCount({s.groups, taps, numbers}, grouped) || s.offsetChannels < grouped) {
        return false;
    }
    if (s.removeCenter && (s.kernelHeight % 2 == 0 || s.kernelWidth % 2 == 0)) {
        return false;
    }
    if (outputs == 0) {
        return true;
    }
    return params.offset != nullptr && params.output != nullptr && (values == 0 || params.x != nullptr) &&
           (!s.maskApart || params.mask != nullptr);
}

GroupedSamplingArguments argumentsOf(const GroupedDeformableSamplingParams& params,
                                     const GroupedDeformableSamplingShape& s, int64_t taps, int64_t elementBytes) {
    const int64_t middleAcross = (s.kernelWidth - 1) * s.dilationWidth / 2;
    const int64_t middleDown = (s.kernelHeight - 1) * s.dilationHeight / 2;
    const bool together = !s.maskApart;
    GroupedSamplingArguments a{};
    a.params = params;
    a.shape = s;
    a.taps = static_cast<int32_t>(taps);
    a.centre = s.removeCenter ? static_cast<int32_t>(taps / 2) : -1;
    a.offsetGroup = taps * (together ? 3 : 2);
    a.weights = together ? static_cast<const char*>(params.offset) + 2 * taps * elementBytes : params.mask;
    a.weightsPixel = together ? s.offsetChannels : s.groups * taps;
    a.weightsGroup = together ? a.offsetGroup : taps;
    a.across = {-s.offsetScale * static_cast<float>(middleAcross), s.offsetScale * static_cast<float>(s.dilationWidth)};
    a.down = {-s.offsetScale * static_cast<float>(middleDown), s.offsetScale * static_cast<float>(s.dilationHeight)};
    a.originAcross = middleAcross - s.paddingLeft;
    a.originDown = middleDown - s.paddingTop;
    return a;
}

// Whether every word of the input and of the output belongs to one group, and places fit the hats and 32 bits.
template <typename T>
bool hasWords(const GroupedSamplingArguments& a, int64_t outputs) {
    constexpr int64_t kVector = WordSampler<T>::kVector;
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max() - kGroupedThreads;
    const GroupedDeformableSamplingShape& s = a.shape;
    const bool small = isSide(s.height, kMaxHatSide) && isSide(s.width, kMaxHatSide) &&
                       isSide(s.paddingTop, kMaxHatSide) && isSide(s.paddingLeft, kMaxHatSide) &&
                       isSide((s.kernelHeight - 1) * s.dilationHeight, kMaxHatSide) &&
                       isSide((s.kernelWidth - 1) * s.dilationWidth, kMaxHatSide);
    return small && s.height >= 2 && s.width >= 2 && s.channels / s.groups % kVector == 0 &&
           outputs / kVector <= kMost && s.channels / kVector <= kMost / (s.height * s.width) &&
           isAligned(a.params.x, kWordBytes) && isAligned(a.params.output, kWordBytes);
}

template <typename T, int kTaps>
cudaError_t launchTaps(const GroupedWordArguments& w, cudaStream_t stream) {
    const int64_t numbers = kTaps > 0 ? stagedGroups(w.groupWords.divisor) * kStagedNumbers<kTaps> : 0;
    return launch(groupedWordKernel<T, kTaps>, gridBlocks(ceilDivide(w.threads, kGroupedThreads)), kGroupedThreads,
                  static_cast<size_t>(numbers) * sizeof(float), stream, w);
}

template <typename T>
cudaError_t launchWords(const GroupedSamplingArguments& a, int64_t outputs, cudaStream_t stream) {
    constexpr int64_t kVector = WordSampler<T>::kVector;
    const GroupedDeformableSamplingShape& s = a.shape;
    const GroupedWordArguments w{a,
                                 static_cast<int32_t>(outputs / kVector),
                                 FastDivider(s.channels / kVector),
                                 FastDivider(s.channels / s.groups / kVector),
                                 FastDivider(s.groups),
                                 FastDivider(s.outWidth),
                                 FastDivider(s.outHeight)};
    if (s.kernelHeight != 3 || s.kernelWidth != 3) {
        return launchTaps<T, 0>(w, stream);
    }
    TileDevice device{};
    const cudaError_t error = tileDevice(device);
    if (error != cudaSuccess) {
        return error;
    }
    TileLaunch tiles{};
    if (chooseTiles<T>(w, device, tiles)) {
        return s.removeCenter ? launchTiles<T, 8>(tiles, stream) : launchTiles<T, 9>(tiles, stream);
    }
    return s.removeCenter ? launchTaps<T, 8>(w, stream) : launchTaps<T, 9>(w, stream);
}

}  // namespace

cudaError_t groupedDeformableSampling(const GroupedDeformableSamplingParams& params,
                                      const GroupedDeformableSamplingShape& s, cudaStream_t stream) {
    int64_t outputs = 0;
    if (!isAxis(s.height, s.outHeight, s.kernelHeight, s.strideHeight, s.paddingTop, s.dilationHeight) ||
        !isAxis(s.width, s.outWidth, s.kernelWidth, s.strideWidth, s.paddingLeft, s.dilationWidth)) {
        return cudaErrorInvalidValue;
    }
    // Both are at most 2^29 + 1.
    const int64_t taps = s.kernelHeight * s.kernelWidth - (s.removeCenter ? 1 : 0);
    if (!isValid(params, s, taps, outputs)) {
        return cudaErrorInvalidValue;
    }
    return withFloatType(params.type, [&](auto tag) -> cudaError_t {
        using T = typename decltype(tag)::type;
        if (outputs == 0) {
            return cudaSuccess;
        }
        const GroupedSamplingArguments a = argumentsOf(params, s, taps, sizeof(T));
        if (hasWords<T>(a, outputs)) {
            return launchWords<T>(a, outputs, stream);
        }
        return launch(elementKernel<T>, gridBlocks(ceilDivide(outputs, kGroupedThreads)), kGroupedThreads, 0, stream, a,
                      outputs);
    });
}

}  // namespace trtsmith
