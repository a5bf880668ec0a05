#include "kernels/sampling/grouped_deformable_sampling.cuh"

#include "kernels/bilinear.cuh"
#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"
#include "kernels/fast_division.cuh"
#include "kernels/sampling/grouped_deformable_sampling_hats.cuh"

namespace trtsmith {
namespace {

constexpr int kThreads = 128;
constexpr int kWordBytes = 16;

// Offset of the taps from an output's origin along one axis: start + tap * step.
struct TapSteps {
    float start;
    float step;
};

__device__ inline float tapShift(const TapSteps& steps, int tap, float offset, float scale) {
    return fmaf(scale, offset, fmaf(static_cast<float>(tap), steps.step, steps.start));
}

struct Arguments {
    GroupedDeformableSamplingParams params;
    GroupedDeformableSamplingShape shape;
    int32_t taps;
    int32_t centre;        // tap that is left out, or -1
    int64_t offsetGroup;   // elements from one group's offsets to the next
    const void* weights;   // of group 0 of the first pixel
    int64_t weightsPixel;  // elements from one pixel's mask to the next
    int64_t weightsGroup;  // and from one group's
    TapSteps across;
    TapSteps down;
    int64_t originAcross;  // column of the middle of the kernel for output column 0
    int64_t originDown;
};

// What the kernel of whole words needs besides: its sizes are below 2^31.
struct WordArguments {
    Arguments common;
    int32_t threads;
    FastDivider pixelWords;
    FastDivider groupWords;
    FastDivider outWidth;
    FastDivider outHeight;
};

// A pair of offsets, (dx, dy), in one load where pairs are aligned.
template <typename T, bool kPaired>
__device__ inline float2 loadPair(const T* source) {
    float pair[2];
    if constexpr (kPaired) {
        loadFloats<2>(source, true, pair);
    } else {
        pair[0] = loadFloat(source);
        pair[1] = loadFloat(source + 1);
    }
    return make_float2(pair[0], pair[1]);
}

// Where one thread samples: its words of the image, and its output pixel's origin.
template <typename T>
struct Sampler {
    static constexpr int kVector = kWordBytes / static_cast<int>(sizeof(T));

    const T* image;       // the word of pixel (0, 0)
    uint32_t columns;     // of the image
    uint32_t pixelWords;  // from one pixel to the next
    uint32_t origin;      // cell of the origin, less what kFloorShiftBits contribute
    HatRange across;
    HatRange down;

    // Four loads are in flight before the first use.
    __device__ void add(float shiftX, float shiftY, float weight, float (&sums)[kVector]) const {
        const SampleAxis x = sampleAxis(shiftX, across);
        const SampleAxis y = sampleAxis(shiftY, down);
        const uint32_t cell = y.cell * columns + (x.cell + origin);
        const T* above = image + int64_t{cell * pixelWords} * kVector;
        const T* below = above + int64_t{columns * pixelWords} * kVector;
        const int64_t right = int64_t{pixelWords} * kVector;
        float values[4][kVector];
        loadFloats<kVector>(above, true, values[0]);
        loadFloats<kVector>(above + right, true, values[1]);
        loadFloats<kVector>(below, true, values[2]);
        loadFloats<kVector>(below + right, true, values[3]);
        const float upper = weight * y.first;
        const float lower = weight * y.second;
        const float factors[4] = {upper * x.first, upper * x.second, lower * x.first, lower * x.second};
#pragma unroll
        for (int corner = 0; corner < 4; ++corner) {
#pragma unroll
            for (int k = 0; k < kVector; ++k) {
                sums[k] = fmaf(factors[corner], values[corner][k], sums[k]);
            }
        }
    }
};

// A thread owns 16 bytes of the channels of one group of one output pixel, and its neighbours the others: offsets and mask
// are read by all of them at once, and what they write is consecutive. kTaps is 9 or 8 for a kernel of 3x3 with and
// without its centre, whose offsets are all loaded before the first sample; or 0 for any other.
template <typename T, int kTaps, bool kPaired>
__global__ void __launch_bounds__(kThreads) wordKernel(const WordArguments arguments) {
    constexpr int kVector = Sampler<T>::kVector;
    const Arguments& a = arguments.common;
    const uint32_t thread = blockIdx.x * kThreads + threadIdx.x;
    if (thread >= static_cast<uint32_t>(arguments.threads)) {
        return;
    }
    const int32_t pixel = arguments.pixelWords.quotient(static_cast<int32_t>(thread));
    const uint32_t pixelWords = arguments.pixelWords.divisor;
    const uint32_t word = thread - static_cast<uint32_t>(pixel) * pixelWords;
    const int32_t group = arguments.groupWords.quotient(static_cast<int32_t>(word));
    const int32_t line = arguments.outWidth.quotient(pixel);
    const int32_t image = arguments.outHeight.quotient(line);
    const int32_t outRow = line - image * static_cast<int32_t>(a.shape.outHeight);
    const int32_t outColumn = pixel - line * static_cast<int32_t>(a.shape.outWidth);

    const T* offsets = static_cast<const T*>(a.params.offset) + pixel * a.shape.offsetChannels + group * a.offsetGroup;
    const T* weights = static_cast<const T*>(a.weights) + pixel * a.weightsPixel + group * a.weightsGroup;
    const int32_t y = static_cast<int32_t>(a.originDown) + outRow * static_cast<int32_t>(a.shape.strideHeight);
    const int32_t x = static_cast<int32_t>(a.originAcross) + outColumn * static_cast<int32_t>(a.shape.strideWidth);
    const uint32_t columns = static_cast<uint32_t>(a.shape.width);
    const Sampler<T> sampler{
        static_cast<const T*>(a.params.x) + image * (a.shape.height * a.shape.width * a.shape.channels) +
            int64_t{word} * kVector,
        columns,
        pixelWords,
        (static_cast<uint32_t>(y) - kFloorShiftBits) * columns + (static_cast<uint32_t>(x) - kFloorShiftBits),
        hatRange(x, static_cast<int32_t>(a.shape.width)),
        hatRange(y, static_cast<int32_t>(a.shape.height)),
    };
    const float scale = a.shape.offsetScale;
    float sums[kVector] = {};
    if constexpr (kTaps > 0) {
        float2 moves[kTaps];
        float shares[kTaps];
#pragma unroll
        for (int t = 0; t < kTaps; ++t) {
            moves[t] = loadPair<T, kPaired>(offsets + 2 * t);
            shares[t] = loadFloat(weights + t);
        }
#pragma unroll
        for (int t = 0; t < kTaps; ++t) {
            const int place = kTaps == 8 && t >= 4 ? t + 1 : t;
            sampler.add(tapShift(a.across, place / 3, moves[t].x, scale),
                        tapShift(a.down, place % 3, moves[t].y, scale), shares[t], sums);
        }
    } else {
        int t = 0;
        for (int i = 0; i < static_cast<int>(a.shape.kernelWidth); ++i) {
            for (int j = 0; j < static_cast<int>(a.shape.kernelHeight); ++j) {
                if (i * static_cast<int>(a.shape.kernelHeight) + j != a.centre) {
                    const float2 move = loadPair<T, kPaired>(offsets + 2 * t);
                    sampler.add(tapShift(a.across, i, move.x, scale), tapShift(a.down, j, move.y, scale),
                                loadFloat(weights + t), sums);
                    ++t;
                }
            }
        }
    }
    storeFloats<kVector>(static_cast<T*>(a.params.output) + int64_t{thread} * kVector, sums);
}

// One output element of any sizes and alignment: a tap at a time, neighbour by neighbour.
template <typename T>
__device__ float sampleElement(const Arguments& a, int64_t pixel, int64_t channel) {
    const GroupedDeformableSamplingShape& s = a.shape;
    const int64_t group = channel / (s.channels / s.groups);
    const int64_t line = pixel / s.outWidth;
    const int64_t image = line / s.outHeight;
    const int32_t y = static_cast<int32_t>(a.originDown + (line - image * s.outHeight) * s.strideHeight);
    const int32_t x = static_cast<int32_t>(a.originAcross + (pixel - line * s.outWidth) * s.strideWidth);
    const T* offsets = static_cast<const T*>(a.params.offset) + pixel * s.offsetChannels + group * a.offsetGroup;
    const T* weights = static_cast<const T*>(a.weights) + pixel * a.weightsPixel + group * a.weightsGroup;
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
__global__ void __launch_bounds__(kThreads) elementKernel(const Arguments a, int64_t elements) {
    const int64_t stride = int64_t{gridDim.x} * kThreads;
    for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elements; i += stride) {
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
    const int64_t numbers = params.mask == nullptr ? 3 : 2;
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
    return outputs == 0 ||
           (params.offset != nullptr && params.output != nullptr && (values == 0 || params.x != nullptr));
}

Arguments argumentsOf(const GroupedDeformableSamplingParams& params, const GroupedDeformableSamplingShape& s,
                      int64_t taps, int64_t elementBytes) {
    const int64_t middleAcross = (s.kernelWidth - 1) * s.dilationWidth / 2;
    const int64_t middleDown = (s.kernelHeight - 1) * s.dilationHeight / 2;
    const bool together = params.mask == nullptr;
    Arguments a{};
    a.params = params;
    a.shape = s;
    a.taps = static_cast<int32_t>(taps);
    a.centre = s.removeCenter ? static_cast<int32_t>(taps / 2) : -1;
    a.offsetGroup = taps * (together ? 3 : 2);
    a.weights = together && params.offset != nullptr ? static_cast<const char*>(params.offset) + 2 * taps * elementBytes
                                                     : params.mask;
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
bool hasWords(const Arguments& a, int64_t outputs) {
    constexpr int64_t kVector = Sampler<T>::kVector;
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max() - kThreads;
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
cudaError_t launchTaps(const WordArguments& w, bool paired, cudaStream_t stream) {
    const unsigned int blocks = gridBlocks(ceilDivide(w.threads, kThreads));
    return paired ? launch(wordKernel<T, kTaps, true>, blocks, kThreads, 0, stream, w)
                  : launch(wordKernel<T, kTaps, false>, blocks, kThreads, 0, stream, w);
}

template <typename T>
cudaError_t launchWords(const Arguments& a, int64_t outputs, cudaStream_t stream) {
    constexpr int64_t kVector = Sampler<T>::kVector;
    const GroupedDeformableSamplingShape& s = a.shape;
    const WordArguments w{a,
                          static_cast<int32_t>(outputs / kVector),
                          FastDivider(s.channels / kVector),
                          FastDivider(s.channels / s.groups / kVector),
                          FastDivider(s.outWidth),
                          FastDivider(s.outHeight)};
    const bool paired =
        s.offsetChannels % 2 == 0 && a.offsetGroup % 2 == 0 && isAligned(a.params.offset, 2 * sizeof(T));
    if (s.kernelHeight != 3 || s.kernelWidth != 3) {
        return launchTaps<T, 0>(w, paired, stream);
    }
    return s.removeCenter ? launchTaps<T, 8>(w, paired, stream) : launchTaps<T, 9>(w, paired, stream);
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
        const Arguments a = argumentsOf(params, s, taps, sizeof(T));
        if (hasWords<T>(a, outputs)) {
            return launchWords<T>(a, outputs, stream);
        }
        return launch(elementKernel<T>, gridBlocks(ceilDivide(outputs, kThreads)), kThreads, 0, stream, a, outputs);
    });
}

}  // namespace trtsmith
