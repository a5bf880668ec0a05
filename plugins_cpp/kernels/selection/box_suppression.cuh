// Boxes that overlap no better one, for boxes of any kind.
//
// Method: candidates of all images and classes are sorted by score, best first. They are then taken in stripes: those that
// overlap a box which was kept before drop out, the others are compared with each other, and one block for each image and
// class goes through the stripe's table of bits.
//
// A kind of boxes is a type with what is asked of it here:
//   Box                              a box in registers
//   kKeptChunk                       kept boxes that one block compares with
//   box(index)                       box `index` of [batch, boxes]
//   limit()                          what overlaps compares with, read once
//   overlaps(better, later, limit)   whether a box drops out for a better one
//   isCandidate(at), orderOf(at)     of score `at`; the order rises with it
//   wanted()                         boxes for each image and class; below 0 means 0
#pragma once

#include "kernels/dispatch.cuh"
#include "kernels/enumerate.cuh"
#include "kernels/merge_sort.cuh"
#include "kernels/selection/box_suppression_state.cuh"

namespace trtsmith {
namespace box_suppression_detail {

constexpr int kThreads = 256;
constexpr int kParts = kThreads / kWord;   // threads that share a candidate
constexpr int kPartBits = kWord / kParts;  // of a word
using PartBits = uint16_t;
static_assert(sizeof(PartBits) * 8 == kPartBits, "threads write their parts of a word");

struct ByKey {
    __device__ bool operator()(const Candidate& a, const Candidate& b) const { return a.key < b.key; }
};

template <typename Boxes>
struct IsCandidate {
    Boxes boxes;

    __device__ bool operator()(int64_t at) const { return boxes.isCandidate(at); }
};

template <typename Boxes>
struct NoteCandidate {
    Boxes boxes;
    int64_t each;
    Candidate* candidates;

    __device__ void operator()(int64_t at, bool flagged, int64_t before) const {
        if (flagged) {
            candidates[before] = {static_cast<uint64_t>(at / each) << 32 | (0xffffffffU - boxes.orderOf(at)), at};
        }
    }
};

template <typename Boxes>
__global__ void __launch_bounds__(kThreads) startKernel(Selection<Boxes> s, const Candidate* sorted) {
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

// One word of the table for each of 64 candidates: those of another (or the same) 64 that come later and overlap it. A
// thread writes a part of a word.
template <typename Boxes>
__device__ void compareWithStripe(const Selection<Boxes>& s, const Candidate* sorted, int64_t segment, int64_t round,
                                  int64_t size, int64_t rows, int64_t columns, typename Boxes::Box (&others)[kWord]) {
    const int own = static_cast<int>(threadIdx.x) % kWord;
    const int part = static_cast<int>(threadIdx.x) / kWord;
    const int64_t first = s.firstOf(segment, round);
    const int64_t row = rows * kWord + own;
    if (part == 0 && columns * kWord + own < size) {
        others[own] = s.candidate(sorted, segment, first + columns * kWord + own);
    }
    __syncthreads();
    if (row < size) {
        const typename Boxes::Box better = s.candidate(sorted, segment, first + row);
        const auto limit = s.boxes.limit();
        const int64_t left = size - columns * kWord;
        unsigned int found = 0;
        for (int i = 0; i < kPartBits; ++i) {
            const int other = part * kPartBits + i;
            if (other < left && (rows != columns || other > own) && s.boxes.overlaps(better, others[other], limit)) {
                found |= 1U << i;
            }
        }
        Bits* const word = s.masks + (segment * s.stripe + row) * s.words + columns;
        reinterpret_cast<PartBits*>(word)[part] = static_cast<PartBits>(found);
    }
}

// Which of 64 candidates overlap one of a chunk of the kept boxes.
template <typename Boxes>
__device__ void compareWithKept(const Selection<Boxes>& s, const Candidate* sorted, int64_t segment, int64_t round,
                                int64_t size, int64_t chunk, int64_t columns, typename Boxes::Box (&others)[kWord]) {
    const int candidate = static_cast<int>(threadIdx.x) % kWord;
    const int part = static_cast<int>(threadIdx.x) / kWord;
    const int64_t count = s.counts[segment];
    if (chunk * Boxes::kKeptChunk >= count) {
        return;  // all of the block
    }
    const int64_t end = (chunk + 1) * Boxes::kKeptChunk < count ? (chunk + 1) * Boxes::kKeptChunk : count;
    const int64_t column = columns * kWord + candidate;
    const bool there = column < size;
    const auto limit = s.boxes.limit();
    typename Boxes::Box own{};
    if (there) {
        own = s.candidate(sorted, segment, s.firstOf(segment, round) + column);
    }
    bool out = false;
    for (int64_t begin = chunk * Boxes::kKeptChunk; begin < end; begin += kWord) {
        if (part == 0 && begin + candidate < end) {
            others[candidate] = s.box(segment, s.kept[segment * s.room + begin + candidate]);
        }
        __syncthreads();
        const int64_t left = end - begin;
        for (int i = part; there && !out && i < kWord && i < left; i += kParts) {
            out = s.boxes.overlaps(others[i], own, limit);
        }
        __syncthreads();
    }
    const unsigned int found = __ballot_sync(kAllLanes, out);
    if (threadIdx.x % 32 == 0 && found != 0) {
        atomicOr(s.dead + segment * s.words + columns, static_cast<Bits>(found) << candidate);
    }
}

// A piece of work is a pair of words of a segment's stripe, or a word and a chunk of kept boxes.
template <typename Boxes>
__global__ void __launch_bounds__(kThreads)
    compareKernel(Selection<Boxes> s, const Candidate* sorted, int64_t round, int64_t chunks) {
    __shared__ typename Boxes::Box others[kWord];
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
template <typename Boxes>
__global__ void __launch_bounds__(kThreads) resolveKernel(Selection<Boxes> s, const Candidate* sorted, int64_t round) {
    __shared__ Bits out[kMostWords];
    __shared__ Bits diagonal[kMostWords * kWord];  // which of a word's 64 candidates each of them overlaps
    __shared__ Bits chosen;
    const int thread = static_cast<int>(threadIdx.x);
    const int words = static_cast<int>(s.words);
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
        for (int64_t row = thread; row < s.stripe; row += kThreads) {
            diagonal[row] = row < size ? masks[row * s.words + row / kWord] : 0;
        }
        __syncthreads();
        for (int64_t word = 0; word * kWord < size && count < limit; ++word) {
            const int64_t left = size - word * kWord;
            if (thread == 0) {
                const Bits* const own = diagonal + word * kWord;
                Bits alive = ~out[word] & (left < kWord ? (Bits{1} << left) - 1 : ~Bits{0});
                Bits taken = 0;
                for (int64_t n = count; alive != 0 && n < limit; ++n) {
                    const int best = __ffsll(static_cast<long long>(alive)) - 1;
                    taken |= Bits{1} << best;
                    alive &= ~(own[best] | Bits{1} << best);
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
            for (int i = thread; i < kWord * words; i += kThreads) {
                const int row = i / words;
                const int later = i % words;
                if (later > word && later * kWord < size && (taken >> row & 1) != 0) {
                    atomicOr(out + later, masks[(word * kWord + row) * words + later]);
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

template <typename Boxes>
__global__ void __launch_bounds__(kThreads) offsetKernel(Selection<Boxes> s) {
    const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < s.segments; i += stride) {
        s.offsets[i] = s.counts[i];
    }
}

template <typename Boxes>
__global__ void __launch_bounds__(kThreads) writeKernel(Selection<Boxes> s, int64_t* selected) {
    const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < s.segments * s.room; i += stride) {
        const int64_t segment = i / s.room;
        const int64_t place = i % s.room;
        if (place < s.counts[segment]) {
            int64_t* const row = selected + (s.offsets[segment] + place) * 3;
            row[0] = segment / s.shape.classes;
            row[1] = segment % s.shape.classes;
            row[2] = s.kept[i];
        }
    }
}

// The rounds over the stripes of the longest segment that there may be.
template <typename Boxes>
cudaError_t suppress(const Selection<Boxes>& s, const Candidate* sorted, cudaStream_t stream) {
    cudaError_t status =
        launch(startKernel<Boxes>, gridBlocks(ceilDivide(s.segments + 1, kThreads)), kThreads, 0, stream, s, sorted);
    for (int64_t round = 0; status == cudaSuccess && round * s.stripe < s.shape.boxes; ++round) {
        const int64_t mostKept = round * s.stripe < s.room ? round * s.stripe : s.room;
        const int64_t chunks = ceilDivide(mostKept, Boxes::kKeptChunk);
        const int64_t works = s.segments * (s.words + chunks) * s.words;
        status = launch(compareKernel<Boxes>, gridBlocks(works), kThreads, 0, stream, s, sorted, round, chunks);
        if (status == cudaSuccess) {
            status = launch(resolveKernel<Boxes>, gridBlocks(s.segments), kThreads, 0, stream, s, sorted, round);
        }
    }
    return status;
}

// Writes the boxes that are left, best first, as rows (image, class, box) in this order, and their number. `s` is laid out
// in the workspace, and has scores.
template <typename Boxes>
cudaError_t selectBoxes(const Selection<Boxes>& s, int64_t* selected, int32_t* count, cudaStream_t stream) {
    const int64_t scores = s.segments * s.shape.boxes;
    Candidate* sorted = nullptr;
    cudaError_t status = enumerate(IsCandidate<Boxes>{s.boxes}, scores, s.total,
                                   NoteCandidate<Boxes>{s.boxes, s.shape.boxes, s.candidates}, s.tiles, stream);
    if (status == cudaSuccess) {
        status = mergeSort(s.candidates, s.spare, scores, ByKey{}, sorted, stream, s.total);
    }
    if (status == cudaSuccess) {
        status = suppress(s, sorted, stream);
    }
    if (status == cudaSuccess) {
        status = launch(offsetKernel<Boxes>, gridBlocks(ceilDivide(s.segments, kThreads)), kThreads, 0, stream, s);
    }
    if (status == cudaSuccess) {
        status = sumBefore(s.offsets, s.segments, count, stream);
    }
    if (status == cudaSuccess) {
        const unsigned int blocks = gridBlocks(ceilDivide(s.segments * s.room, kThreads));
        status = launch(writeKernel<Boxes>, blocks, kThreads, 0, stream, s, selected);
    }
    return status;
}

}  // namespace box_suppression_detail
}  // namespace trtsmith
