#include "box_selection.cuh"

#include "box_selection_state.cuh"
#include "dispatch.cuh"
#include "enumerate.cuh"
#include "merge_sort.cuh"
#include "order_key.cuh"

namespace trtsmith {
namespace {

using namespace box_selection_detail;

constexpr int kThreads = 256;
constexpr int64_t kKeptChunk = 512;  // kept boxes that one block compares with

struct ByKey {
    __device__ bool operator()(const Candidate& a, const Candidate& b) const { return a.key < b.key; }
};

struct IsCandidate {
    const float* scores;
    const float* floor;

    __device__ bool operator()(int64_t at) const {
        const float score = scores[at];
        return floor != nullptr ? score > *floor : score == score;
    }
};

struct NoteCandidate {
    const float* scores;
    int64_t boxes;
    Candidate* candidates;

    __device__ void operator()(int64_t at, bool flagged, int64_t before) const {
        if (flagged) {
            const uint64_t order = orderKey(DType::kFloat32, scores, at);
            candidates[before] = {static_cast<uint64_t>(at / boxes) << 32 | (0xffffffffU - order), at};
        }
    }
};

__global__ void __launch_bounds__(kThreads) startKernel(Selection s, const Candidate* sorted) {
    const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
    for (int64_t segment = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; segment <= s.segments;
         segment += stride) {
        int64_t low = 0;
        int64_t high = *s.total;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (static_cast<int64_t>(sorted[middle].key >> 32) < segment) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        s.starts[segment] = low;
        if (segment < s.segments) {
            s.counts[segment] = 0;
            for (int64_t word = 0; word < s.words; ++word) {
                s.dead[segment * s.words + word] = 0;
            }
        }
    }
}

// One word of the table for each of 64 candidates: those of another (or the same) 64 that come later and overlap it.
__device__ void compareWithStripe(const Selection& s, const Candidate* sorted, int64_t segment, int64_t round,
                                  int64_t size, int64_t rows, int64_t columns, Box (&others)[kWord]) {
    const int thread = static_cast<int>(threadIdx.x);
    const int64_t first = s.firstOf(segment, round);
    const int64_t row = rows * kWord + thread;
    if (columns * kWord + thread < size) {
        others[thread] = s.candidate(sorted, segment, first + columns * kWord + thread);
    }
    __syncthreads();
    if (row < size) {
        const Box own = s.candidate(sorted, segment, first + row);
        const float limit = *s.params.overlap;
        const int64_t left = size - columns * kWord;
        const int end = left < kWord ? static_cast<int>(left) : kWord;
        Bits found = 0;
        for (int i = rows == columns ? thread + 1 : 0; i < end; ++i) {
            found |= overlaps(own, others[i], limit) ? Bits{1} << i : 0;
        }
        s.masks[(segment * s.stripe + row) * s.words + columns] = found;
    }
}

// Which of 64 candidates overlap one of a chunk of the kept boxes.
__device__ void compareWithKept(const Selection& s, const Candidate* sorted, int64_t segment, int64_t round,
                                int64_t size, int64_t chunk, int64_t columns, Box (&others)[kWord]) {
    const int thread = static_cast<int>(threadIdx.x);
    const int64_t count = s.counts[segment];
    const int64_t end = (chunk + 1) * kKeptChunk < count ? (chunk + 1) * kKeptChunk : count;
    const int64_t column = columns * kWord + thread;
    const bool there = column < size;
    const float limit = *s.params.overlap;
    const Box own = there ? s.candidate(sorted, segment, s.firstOf(segment, round) + column) : Box{};
    bool out = false;
    for (int64_t begin = chunk * kKeptChunk; begin < end; begin += kWord) {
        if (begin + thread < end) {
            others[thread] = s.box(segment, s.kept[segment * s.room + begin + thread]);
        }
        __syncthreads();
        const int64_t left = end - begin;
        for (int i = 0; there && !out && i < kWord && i < left; ++i) {
            out = overlaps(own, others[i], limit);
        }
        __syncthreads();
    }
    const unsigned int found = __ballot_sync(0xffffffffu, out);
    if (thread % 32 == 0 && found != 0) {
        atomicOr(s.dead + segment * s.words + columns, static_cast<Bits>(found) << thread);
    }
}

// Blocks of 64 threads; a piece of work is a pair of words of a segment's stripe, or a word and a chunk of kept boxes.
__global__ void __launch_bounds__(kWord)
    compareKernel(Selection s, const Candidate* sorted, int64_t round, int64_t chunks) {
    __shared__ Box others[kWord];
    const int64_t rows = s.words + chunks;
    const int64_t each = rows * s.words;
    for (int64_t work = blockIdx.x; work < s.segments * each; work += gridDim.x) {
        const int64_t segment = work / each;
        const int64_t row = work % each / s.words;
        const int64_t columns = work % s.words;
        const int64_t size = s.sizeOf(segment, round);
        if (columns * kWord < size) {
            if (row >= s.words) {
                compareWithKept(s, sorted, segment, round, size, row - s.words, columns, others);
            } else if (row <= columns) {
                compareWithStripe(s, sorted, segment, round, size, row, columns, others);
            }
        }
        __syncthreads();
    }
}

// One block for each segment goes through its stripe, 64 candidates at a time.
__global__ void __launch_bounds__(kThreads) resolveKernel(Selection s, const Candidate* sorted, int64_t round) {
    __shared__ Bits out[kMostWords];
    __shared__ Bits diagonal[kWord];
    __shared__ Bits chosen;
    const int thread = static_cast<int>(threadIdx.x);
    for (int64_t segment = blockIdx.x; segment < s.segments; segment += gridDim.x) {
        const int64_t size = s.sizeOf(segment, round);
        const int64_t first = s.firstOf(segment, round);
        const int64_t limit = s.limit();
        int64_t count = s.counts[segment];
        __syncthreads();  // all have read the count, and nobody needs the shared words any more
        if (thread < s.words) {
            out[thread] = s.dead[segment * s.words + thread];
            s.dead[segment * s.words + thread] = 0;
        }
        const Bits* const masks = s.masks + segment * s.stripe * s.words;
        for (int64_t word = 0; word * kWord < size && count < limit; ++word) {
            const int64_t left = size - word * kWord;
            if (thread < kWord) {
                diagonal[thread] = thread < left ? masks[(word * kWord + thread) * s.words + word] : 0;
            }
            __syncthreads();
            if (thread == 0) {
                Bits alive = ~out[word] & (left < kWord ? (Bits{1} << left) - 1 : ~Bits{0});
                Bits taken = 0;
                for (int64_t n = count; alive != 0 && n < limit; ++n) {
                    const int best = __ffsll(static_cast<long long>(alive)) - 1;
                    taken |= Bits{1} << best;
                    alive &= ~(diagonal[best] | Bits{1} << best);
                }
                chosen = taken;
            }
            __syncthreads();
            const Bits taken = chosen;
            if (thread < kWord && (taken >> thread & 1) != 0) {
                const int before = __popcll(taken & ((Bits{1} << thread) - 1));
                const int64_t box = sorted[first + word * kWord + thread].at - segment * s.shape.boxes;
                s.kept[segment * s.room + count + before] = static_cast<int32_t>(box);
            }
            for (int64_t i = thread; i < kWord * s.words; i += kThreads) {
                const int64_t row = i / s.words;
                const int64_t later = i % s.words;
                if (later > word && later * kWord < size && (taken >> row & 1) != 0) {
                    atomicOr(out + later, masks[(word * kWord + row) * s.words + later]);
                }
            }
            count += __popcll(taken);
            __syncthreads();
        }
        if (thread == 0) {
            s.counts[segment] = count;
        }
    }
}

__global__ void __launch_bounds__(kThreads) offsetKernel(Selection s) {
    const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < s.segments; i += stride) {
        s.offsets[i] = s.counts[i];
    }
}

__global__ void __launch_bounds__(kThreads) writeKernel(Selection s) {
    const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < s.segments * s.room; i += stride) {
        const int64_t segment = i / s.room;
        const int64_t place = i % s.room;
        if (place < s.counts[segment]) {
            int64_t* const row = s.params.selected + (s.offsets[segment] + place) * 3;
            row[0] = segment / s.shape.classes;
            row[1] = segment % s.shape.classes;
            row[2] = s.kept[i];
        }
    }
}

// The rounds over the stripes of the longest segment that there may be.
cudaError_t select(const Selection& s, const Candidate* sorted, cudaStream_t stream) {
    cudaError_t status =
        launch(startKernel, gridBlocks(ceilDivide(s.segments + 1, kThreads)), kThreads, 0, stream, s, sorted);
    for (int64_t round = 0; status == cudaSuccess && round * s.stripe < s.shape.boxes; ++round) {
        const int64_t mostKept = round * s.stripe < s.room ? round * s.stripe : s.room;
        const int64_t chunks = ceilDivide(mostKept, kKeptChunk);
        const int64_t works = s.segments * (s.words + chunks) * s.words;
        status = launch(compareKernel, gridBlocks(works), kWord, 0, stream, s, sorted, round, chunks);
        if (status == cudaSuccess) {
            status = launch(resolveKernel, gridBlocks(s.segments), kThreads, 0, stream, s, sorted, round);
        }
    }
    return status;
}

}  // namespace

size_t boxSelectionWorkspace(const BoxSelectionShape& shape) {
    Selection s{};
    size_t size = 0;
    return layOut(shape, nullptr, s, size) ? size : 0;
}

cudaError_t boxSelection(const BoxSelectionParams& params, const BoxSelectionShape& shape, void* workspace,
                         cudaStream_t stream) {
    Selection s{};
    size_t size = 0;
    if (!layOut(shape, workspace, s, size) || params.count == nullptr) {
        return cudaErrorInvalidValue;
    }
    if (size == 0) {
        return sumBefore(nullptr, 0, params.count, stream);  // no box: the count is 0
    }
    if (workspace == nullptr || params.boxes == nullptr || params.scores == nullptr || params.maxBoxes == nullptr ||
        params.overlap == nullptr || params.selected == nullptr) {
        return cudaErrorInvalidValue;
    }
    s.params = params;
    const int64_t scores = s.segments * shape.boxes;
    Candidate* sorted = nullptr;
    cudaError_t status = enumerate(IsCandidate{params.scores, params.floor}, scores, s.total,
                                   NoteCandidate{params.scores, shape.boxes, s.candidates}, s.tiles, stream);
    if (status == cudaSuccess) {
        status = mergeSort(s.candidates, s.spare, scores, ByKey{}, sorted, stream, s.total);
    }
    if (status == cudaSuccess) {
        status = select(s, sorted, stream);
    }
    if (status == cudaSuccess) {
        status = launch(offsetKernel, gridBlocks(ceilDivide(s.segments, kThreads)), kThreads, 0, stream, s);
    }
    if (status == cudaSuccess) {
        status = sumBefore(s.offsets, s.segments, params.count, stream);
    }
    if (status == cudaSuccess) {
        status = launch(writeKernel, gridBlocks(ceilDivide(s.segments * s.room, kThreads)), kThreads, 0, stream, s);
    }
    return status;
}

}  // namespace trtsmith
