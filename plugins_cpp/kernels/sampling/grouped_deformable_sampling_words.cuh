// Grouped deformable sampling of whole words: 16 bytes of a group's channels to a thread.
#pragma once

#include <cstdint>

#include "kernels/convert.cuh"
#include "kernels/fast_division.cuh"
#include "kernels/sampling/grouped_deformable_sampling_arguments.cuh"
#include "kernels/sampling/grouped_deformable_sampling_hats.cuh"

namespace trtsmith {

constexpr int kWordBytes = 16;

// What the kernel of whole words needs besides: its sizes are below 2^31.
struct GroupedWordArguments {
    GroupedSamplingArguments common;
    int32_t threads;
    FastDivider pixelWords;
    FastDivider groupWords;
    FastDivider groups;
    FastDivider outWidth;
    FastDivider outHeight;
};

// Numbers of one group of one pixel in shared memory: offsets, then mask. An odd distance keeps groups in banks apart.
template <int kTaps>
constexpr int kStagedNumbers = (3 * kTaps) | 1;

// Groups of pixels that a block of threads has parts of, at most.
constexpr int64_t stagedGroups(int64_t groupWords) {
    return kGroupedThreads % groupWords == 0 ? kGroupedThreads / groupWords : kGroupedThreads / groupWords + 2;
}

// Copies the numbers of `count` groups of pixels, which follow one another, as floats: neighbouring threads read
// neighbouring numbers. The threads of a warp are in up to 32 groups: where each reads its own numbers, a load touches
// nearly as many lines of the first-level cache as one of samples does, and there are 27 such loads to 36.
template <typename T, int kTaps>
__device__ inline void stageTaps(const GroupedWordArguments& w, int32_t firstGroup, int32_t count, float* staged) {
    constexpr int kNumbers = 3 * kTaps;
    constexpr int kBatch = 7;  // loads in flight: all that 16 channels a group in float32 need
    const int32_t groups = static_cast<int32_t>(w.groups.divisor);
    for (int32_t first = static_cast<int32_t>(threadIdx.x); first < count * kNumbers;
         first += kBatch * kGroupedThreads) {
        float numbers[kBatch];
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            const int32_t item = first + b * kGroupedThreads;
            const bool valid = item < count * kNumbers;
            const int32_t at = valid ? item / kNumbers : 0;
            const int32_t number = valid ? item - at * kNumbers : 0;
            const int32_t pixel = w.groups.quotient(firstGroup + at);
            const int32_t group = firstGroup + at - pixel * groups;
            const T* source = number < 2 * kTaps ? offsetsOf<T>(w.common, pixel, group) + number
                                                 : weightsOf<T>(w.common, pixel, group) + (number - 2 * kTaps);
            numbers[b] = loadFloat(source, valid);
        }
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            const int32_t item = first + b * kGroupedThreads;
            if (item < count * kNumbers) {
                const int32_t at = item / kNumbers;
                staged[at * kStagedNumbers<kTaps> + (item - at * kNumbers)] = numbers[b];
            }
        }
    }
}

// The address of a 16-byte word, in one instruction. In assembly because the compiler otherwise recomputes it from its
// parts for every load.
const __device__ inline char* wordAt(const char* words, uint32_t index) {
#ifdef __CUDA_ARCH__
    const char* result;
    asm("mad.wide.u32 %0, %1, 16, %2;" : "=l"(result) : "r"(index), "l"(words));
    __builtin_assume(__isGlobal(result));
    return result;
#else
    return words + int64_t{index} * kWordBytes;
#endif
}

// Where one thread samples: its words of the image, and its output pixel's origin.
template <typename T>
struct WordSampler {
    static constexpr int kVector = kWordBytes / static_cast<int>(sizeof(T));

    const char* image[4];  // the thread's word of pixels (0, 0), (0, 1), (1, 0) and (1, 1)
    uint32_t columns;      // of the image
    uint32_t pixelWords;   // from one pixel to the next
    uint32_t origin;       // cell of the origin, less what kFloorShiftBits contribute
    HatRange across;
    HatRange down;

    // Four loads are in flight before the first use.
    __device__ void add(float shiftX, float shiftY, float weight, float (&sums)[kVector]) const {
        const SampleAxis x = sampleAxis(shiftX, across);
        const SampleAxis y = sampleAxis(shiftY, down);
        const uint32_t cell = y.cell * columns + (x.cell + origin);
        const uint32_t index = cell * pixelWords;
        float values[4][kVector];
#pragma unroll
        for (int corner = 0; corner < 4; ++corner) {
            loadFloats<kVector>(reinterpret_cast<const T*>(wordAt(image[corner], index)), true, values[corner]);
        }
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

template <typename T>
__device__ inline WordSampler<T> samplerOf(const GroupedWordArguments& w, int32_t pixel, uint32_t word) {
    const GroupedDeformableSamplingShape& s = w.common.shape;
    const int32_t line = w.outWidth.quotient(pixel);
    const int32_t image = w.outHeight.quotient(line);
    const int32_t outRow = line - image * static_cast<int32_t>(s.outHeight);
    const int32_t outColumn = pixel - line * static_cast<int32_t>(s.outWidth);
    const int32_t y = static_cast<int32_t>(w.common.originDown) + outRow * static_cast<int32_t>(s.strideHeight);
    const int32_t x = static_cast<int32_t>(w.common.originAcross) + outColumn * static_cast<int32_t>(s.strideWidth);
    const uint32_t columns = static_cast<uint32_t>(s.width);
    const int64_t right = s.channels * static_cast<int64_t>(sizeof(T));
    const int64_t below = right * s.width;
    const char* first =
        static_cast<const char*>(w.common.params.x) + image * (s.height * below) + int64_t{word} * kWordBytes;
    return {
        {first, first + right, first + below, first + below + right},
        columns,
        w.pixelWords.divisor,
        (static_cast<uint32_t>(y) - kFloorShiftBits) * columns + (static_cast<uint32_t>(x) - kFloorShiftBits),
        hatRange(x, static_cast<int32_t>(s.width)),
        hatRange(y, static_cast<int32_t>(s.height)),
    };
}

// The samples of a kernel of 3x3 with (9) or without its centre (8).
template <int kTaps, typename T>
__device__ inline void addStaged(const GroupedSamplingArguments& a, const WordSampler<T>& sampler, const float* numbers,
                                 float (&sums)[WordSampler<T>::kVector]) {
    const float scale = a.shape.offsetScale;
#pragma unroll
    for (int t = 0; t < kTaps; ++t) {
        const int place = kTaps == 8 && t >= 4 ? t + 1 : t;
        sampler.add(tapShift(a.across, place / 3, numbers[2 * t], scale),
                    tapShift(a.down, place % 3, numbers[2 * t + 1], scale), numbers[2 * kTaps + t], sums);
    }
}

// The samples of any other kernel.
template <typename T>
__device__ inline void addTaps(const GroupedSamplingArguments& a, const WordSampler<T>& sampler, const T* offsets,
                               const T* weights, float (&sums)[WordSampler<T>::kVector]) {
    const float scale = a.shape.offsetScale;
    const int height = static_cast<int>(a.shape.kernelHeight);
    int64_t t = 0;
    for (int i = 0; i < static_cast<int>(a.shape.kernelWidth); ++i) {
        for (int j = 0; j < height; ++j) {
            if (int64_t{i} * height + j != a.centre) {
                sampler.add(tapShift(a.across, i, loadFloat(offsets + 2 * t), scale),
                            tapShift(a.down, j, loadFloat(offsets + 2 * t + 1), scale), loadFloat(weights + t), sums);
                ++t;
            }
        }
    }
}

// A thread owns 16 bytes of the channels of one group of one output pixel, and its neighbours the others, so that what
// they write is consecutive. kTaps is 9 or 8 for a kernel of 3x3 with and without its centre, whose offsets and mask a
// block first brings to shared memory; or 0 for any other.
template <typename T, int kTaps>
__global__ void __launch_bounds__(kGroupedThreads, 8) groupedWordKernel(const GroupedWordArguments w) {
    constexpr int kVector = WordSampler<T>::kVector;
    extern __shared__ float staged[];
    const int32_t firstThread = static_cast<int32_t>(blockIdx.x) * kGroupedThreads;
    const int32_t thread = firstThread + static_cast<int32_t>(threadIdx.x);
    const int32_t firstGroup = w.groupWords.quotient(firstThread);
    if constexpr (kTaps > 0) {
        const int32_t rest = w.threads - firstThread;
        const int32_t lastThread = firstThread + (rest < kGroupedThreads ? rest : kGroupedThreads) - 1;
        stageTaps<T, kTaps>(w, firstGroup, w.groupWords.quotient(lastThread) - firstGroup + 1, staged);
        __syncthreads();
    }
    if (thread >= w.threads) {
        return;
    }
    const int32_t pixel = w.pixelWords.quotient(thread);
    const int32_t word = thread - pixel * static_cast<int32_t>(w.pixelWords.divisor);
    const WordSampler<T> sampler = samplerOf<T>(w, pixel, static_cast<uint32_t>(word));
    float sums[kVector] = {};
    if constexpr (kTaps > 0) {
        const int32_t at = w.groupWords.quotient(thread) - firstGroup;
        addStaged<kTaps>(w.common, sampler, staged + at * kStagedNumbers<kTaps>, sums);
    } else {
        const int32_t group = w.groupWords.quotient(word);
        addTaps(w.common, sampler, offsetsOf<T>(w.common, pixel, group), weightsOf<T>(w.common, pixel, group), sums);
    }
    storeFloats<kVector>(static_cast<T*>(w.common.params.output) + int64_t{thread} * kVector, sums);
}

}  // namespace trtsmith
