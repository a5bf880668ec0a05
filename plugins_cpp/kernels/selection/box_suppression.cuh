// Boxes that overlap no better one, for boxes of any kind.
//
// Method: candidates of all images and classes are sorted by score, best first. They are then taken in stripes, of which one
// suffices for most: those that overlap a box which was kept before drop out, the others are compared with each other, and
// one block for each image and class goes through the stripe's table of bits. While its first warp takes boxes of 64
// candidates, the other warps let those drop out of the rest which overlap the boxes taken before.
//
// A kind of boxes is a type with what is asked of it here:
//   Box                              a box in registers
//   kMostStripe                      candidates of a stripe, at most: a power of two
//   kKeptChunk                       kept boxes that one block compares with
//   box(index)                       box `index` of [batch, boxes]
//   limit()                          what overlaps compares with, read once
//   overlaps(better, later, limit)   whether a box drops out for a better one
//   isCandidate(at), orderOf(at)     of score `at`; the order rises with it
//   wanted()                         boxes for each image and class; below 0 means 0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/dispatch.cuh"
#include "kernels/enumerate.cuh"
#include "kernels/merge_sort.cuh"
#include "kernels/selection/box_suppression_state.cuh"
#include "kernels/warp.cuh"

namespace trtsmith {
namespace box_suppression_detail {

constexpr int kThreads = 256;
constexpr int kParts = kThreads / kWord;            // threads that share a candidate
constexpr int kWarpRows = kWord / (kThreads / 32);  // of 64 candidates
// About four for each place of a large GPU, so that what blocks have evens out.
constexpr int64_t kCompareBlocks = 4096;
constexpr int kCompareBlocksHere = 3;  // of a multiprocessor: told none, ptxas takes 64 registers and spills
constexpr int kResolveThreads = 1024;
constexpr int kRowChunk = 8;              // rows of the table that a thread loads at once
constexpr int64_t kMostRanked = 16384;    // boxes that are sorted by comparing each with all
constexpr uint32_t kNoKey = 0xffffffffU;  // behind that of any candidate

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
    const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    for (int64_t i = thread; i < s.segments * s.words; i += stride) {
        s.dead[i] = 0;
    }
    for (int64_t segment = thread; segment <= s.segments; segment += stride) {
        int64_t low = segment < s.segments ? 0 : *s.total;
        int64_t high = segment > 0 ? *s.total : 0;
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
        }
    }
}

// Sorts the candidates of one segment: the place of each is the number of those before it, of which a warp counts a part for
// each of a block's 32. Does what startKernel does, too.
template <typename Boxes>
__global__ void __launch_bounds__(kThreads) rankKernel(Selection<Boxes> s) {
    constexpr int kTile = 4 * kThreads;
    constexpr int kShare = kTile / (kThreads / 32);  // of a warp
    __shared__ uint32_t keys[kTile];
    __shared__ int places[32];
    __shared__ int candidates;
    const int thread = static_cast<int>(threadIdx.x);
    const int lane = thread % 32;
    const int n = static_cast<int>(s.shape.boxes);
    const int block = static_cast<int>(blockIdx.x) * 32;
    const auto keyOf = [&s, n](int at) {
        return at < n && s.boxes.isCandidate(at) ? 0xffffffffU - s.boxes.orderOf(at) : kNoKey;
    };
    const uint32_t own = keyOf(block + lane);
    int before = 0;
    int total = 0;
    if (thread < 32) {
        places[thread] = 0;
        candidates = 0;
    }
    for (int tile = 0; tile < n; tile += kTile) {
        __syncthreads();
        for (int i = thread; i < kTile; i += kThreads) {
            keys[i] = keyOf(tile + i);
            total += keys[i] != kNoKey ? 1 : 0;
        }
        __syncthreads();
        for (int at = thread / 32 * kShare; at < (thread / 32 + 1) * kShare; at += 32) {
            const uint32_t limit = own + (tile + at < block ? 1 : 0);  // equal ones keep their order
#pragma unroll
            for (int i = 0; i < 32; ++i) {
                before += keys[at + i] < limit ? 1 : 0;
            }
            for (int i = 0; tile + at == block && i < lane; ++i) {
                before += keys[at + i] == own ? 1 : 0;
            }
        }
    }
    atomicAdd(places + lane, before);
    atomicAdd(&candidates, total);
    __syncthreads();
    if (thread < 32 && own != kNoKey) {
        s.candidates[places[thread]] = {own, block + thread};
    }
    if (block * (kThreads / 32) + thread < s.words) {
        s.dead[block * (kThreads / 32) + thread] = 0;
    }
    if (block == 0 && thread == 0) {
        s.starts[0] = 0;
        s.starts[1] = candidates;
        s.counts[0] = 0;
    }
}

// One word of the table for each of 64 candidates: those of another (or the same) 64 that come later and overlap it. A lane
// has two of the latter, a warp eight of the former.
template <typename Boxes>
__device__ void compareWithStripe(const Selection<Boxes>& s, const Candidate* sorted, int64_t segment, int64_t round,
                                  int64_t size, int64_t rows, int64_t columns, typename Boxes::Box (&others)[kWord]) {
    const int thread = static_cast<int>(threadIdx.x);
    const int lane = thread % 32;
    const int firstRow = thread / 32 * kWarpRows;
    const int64_t first = s.firstOf(segment, round);
    if (thread < kWord && rows * kWord + thread < size) {
        others[thread] = s.candidate(sorted, segment, first + rows * kWord + thread);
    }
    typename Boxes::Box later[2]{};
    bool there[2];
    for (int half = 0; half < 2; ++half) {
        const int64_t column = columns * kWord + half * 32 + lane;
        there[half] = column < size;
        if (there[half]) {
            later[half] = s.candidate(sorted, segment, first + column);
        }
    }
    const auto limit = s.boxes.limit();
    __syncthreads();
    Bits own = 0;
    for (int i = 0; i < kWarpRows && rows * kWord + firstRow + i < size; ++i) {
        const int row = firstRow + i;
        const typename Boxes::Box better = others[row];
        Bits found = 0;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const bool after = there[half] && (rows != columns || half * 32 + lane > row);
            const bool out = after && s.boxes.overlaps(better, later[half], limit);
            found |= static_cast<Bits>(__ballot_sync(kAllLanes, out)) << (half * 32);
        }
        own = lane == i ? found : own;
    }
    const int64_t row = rows * kWord + firstRow + lane;
    if (lane < kWarpRows && row < size) {
        s.masks[(segment * s.stripe + row) * s.words + columns] = own;
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

// A piece of work is a pair of words of a segment's stripe, or a word and a chunk of kept boxes. Pairs are the upper half of a
// square, whose rows from below fill up those from above to `pairs` columns.
template <typename Boxes>
__global__ void __launch_bounds__(kThreads, kCompareBlocksHere)
    compareKernel(Selection<Boxes> s, const Candidate* sorted, int64_t round, int64_t blocks) {
    __shared__ typename Boxes::Box others[kWord];
    for (int64_t piece = blockIdx.x; piece < s.segments * blocks; piece += gridDim.x) {
        const int64_t segment = piece / blocks;
        const int64_t size = s.sizeOf(segment, round);
        const auto words = static_cast<uint32_t>((size + kWord - 1) / kWord);
        const uint32_t height = (words + 1) / 2;
        const uint32_t pairs = 2 * height + 1;
        const auto chunks = static_cast<uint32_t>((s.counts[segment] + Boxes::kKeptChunk - 1) / Boxes::kKeptChunk);
        const uint32_t works = words > 0 ? height * pairs + chunks * words : 0;
        for (auto work = static_cast<uint32_t>(piece % blocks); work < works; work += static_cast<uint32_t>(blocks)) {
            if (work >= height * pairs) {
                const uint32_t other = work - height * pairs;
                compareWithKept(s, sorted, segment, round, size, other / words, other % words, others);
            } else {
                const uint32_t above = work / pairs;
                const uint32_t place = work % pairs;
                const uint32_t row = place > above ? above : 2 * height - 1 - above;
                const uint32_t column = place > above ? place - 1 : row + place;
                if (column < words) {
                    compareWithStripe(s, sorted, segment, round, size, row, column, others);
                }
            }
            __syncthreads();
        }
    }
}

__device__ inline Bits orOfWarp(Bits value) {
#if __CUDA_ARCH__ >= 800
    return static_cast<Bits>(__reduce_or_sync(kAllLanes, static_cast<uint32_t>(value >> 32))) << 32 |
           __reduce_or_sync(kAllLanes, static_cast<uint32_t>(value));
#else
    for (int step = 16; step > 0; step /= 2) {
        value |= __shfl_xor_sync(kAllLanes, value, step);
    }
    return value;
#endif
}

// What a lane has of 64 rows of the table: two of them, in the columns of the same 64 candidates and of the next.
struct TwoRows {
    Bits same[2];
    Bits next[2];

    template <typename Boxes>
    __device__ static TwoRows of(const Selection<Boxes>& s, const Bits* masks, int64_t size, int word, int words) {
        TwoRows loaded{};
        for (int half = 0; half < 2; ++half) {
            const int row = word * kWord + half * 32 + static_cast<int>(threadIdx.x) % 32;
            if (row < size) {
                const Bits* const from = masks + row * s.words + word;
                loaded.same[half] = from[0];
                loaded.next[half] = word + 1 < words ? from[1] : 0;
            }
        }
        return loaded;
    }
};

// The candidates that one of `chosen` overlaps; rows: of this lane.
__device__ inline Bits overlappedBy(Bits chosen, const Bits (&rows)[2]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return orOfWarp(((chosen >> lane & 1) != 0 ? rows[0] : 0) | ((chosen >> (lane + 32) & 1) != 0 ? rows[1] : 0));
}

// Which of 64 candidates are taken, `most` of them at most. Those that none before them overlaps are taken at once.
__device__ inline Bits takenOf(Bits open, int64_t most, const Bits (&rows)[2]) {
    Bits taken = 0;
    while (open != 0) {
        const Bits chosen = open & ~overlappedBy(open, rows);
        taken |= chosen;
        open &= ~(chosen | overlappedBy(chosen, rows));
    }
    while (__popcll(taken) > most) {
        taken &= ~(Bits{1} << (63 - __clzll(static_cast<long long>(taken))));
    }
    return taken;
}

// Lets those after the next 64 candidates drop out that overlap taken ones of a word: all warps but the first have eight rows
// and 32 words of columns in turn.
template <typename Boxes>
__device__ void dropAfter(const Selection<Boxes>& s, const Bits* masks, int word, int words, Bits taken, Bits* out) {
    constexpr int kChunks = kWord / kRowChunk;
    const int others = static_cast<int>(blockDim.x) / 32 - 1;
    const int first = word + 2;
    for (int task = static_cast<int>(threadIdx.x) / 32 - 1; first + task / kChunks * 32 < words; task += others) {
        const int chunk = task % kChunks * kRowChunk;
        const int column = first + task / kChunks * 32 + static_cast<int>(threadIdx.x) % 32;
        const Bits* const rows = masks + (word * kWord + chunk) * s.words + column;
        Bits loaded[kRowChunk];
#pragma unroll
        for (int i = 0; i < kRowChunk; ++i) {
            loaded[i] = column < words && (taken >> (chunk + i) & 1) != 0 ? rows[i * s.words] : 0;
        }
        Bits found = 0;
#pragma unroll
        for (int i = 0; i < kRowChunk; ++i) {
            found |= loaded[i];
        }
        if (found != 0) {
            atomicOr(out + column, found);
        }
    }
}

// One block for each segment goes through its stripe, 64 candidates at a time.
template <typename Boxes>
__global__ void __launch_bounds__(kResolveThreads)
    resolveKernel(Selection<Boxes> s, const Candidate* sorted, int64_t round) {
    __shared__ Bits out[kMostWords];
    __shared__ Bits chosen[kMostWords];
    __shared__ int64_t before[kMostWords];  // boxes kept before a word
    const int thread = static_cast<int>(threadIdx.x);
    const int threads = static_cast<int>(blockDim.x);
    for (int64_t segment = blockIdx.x; segment < s.segments; segment += gridDim.x) {
        const int64_t size = s.sizeOf(segment, round);
        const int64_t first = s.firstOf(segment, round);
        const int64_t limit = s.limit();
        const Bits* const masks = s.masks + segment * s.stripe * s.words;
        int words = static_cast<int>((size + kWord - 1) / kWord);
        int64_t count = s.counts[segment];
        __syncthreads();  // all have read the count, and nobody needs the shared words any more
        for (int i = thread; i < words; i += threads) {
            out[i] = s.dead[segment * s.words + i];
            s.dead[segment * s.words + i] = 0;
        }
        TwoRows rows = thread < 32 ? TwoRows::of(s, masks, size, 0, words) : TwoRows{};
        Bits dropped = 0;  // of the next word, by the one before it
        __syncthreads();
        for (int word = 0; word < words; ++word) {
            if (thread < 32) {
                const TwoRows next = TwoRows::of(s, masks, size, word + 1, words);
                const int64_t left = size - word * kWord;
                const Bits open = ~(out[word] | dropped) & (left < kWord ? (Bits{1} << left) - 1 : ~Bits{0});
                const Bits taken = takenOf(open, limit - count, rows.same);
                dropped = overlappedBy(taken, rows.next);
                if (thread == 0) {
                    chosen[word] = taken;
                    before[word] = count;
                }
                rows = next;
            } else if (word > 0) {
                dropAfter(s, masks, word - 1, words, chosen[word - 1], out);
            }
            __syncthreads();
            count += __popcll(chosen[word]);
            words = count < limit ? words : word + 1;
        }
        for (int i = thread; i < words * kWord; i += threads) {
            const Bits taken = chosen[i / kWord];
            const int bit = i % kWord;
            if ((taken >> bit & 1) != 0) {
                const int64_t box = sorted[first + i].at - segment * s.shape.boxes;
                const int64_t place = before[i / kWord] + __popcll(taken & ((Bits{1} << bit) - 1));
                s.kept[segment * s.room + place] = static_cast<int32_t>(box);
            }
        }
        if (thread == 0) {
            s.counts[segment] = count;
            s.offsets[segment] = count;
        }
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

// Sorts the candidates of all segments, and says where those of each begin.
template <typename Boxes>
cudaError_t inOrder(const Selection<Boxes>& s, Candidate*& sorted, cudaStream_t stream) {
    if (s.segments == 1 && s.shape.boxes <= kMostRanked) {
        return launch(rankKernel<Boxes>, gridBlocks(ceilDivide(s.shape.boxes, 32)), kThreads, 0, stream, s);
    }
    const int64_t scores = s.segments * s.shape.boxes;
    cudaError_t status = enumerate(IsCandidate<Boxes>{s.boxes}, scores, s.total,
                                   NoteCandidate<Boxes>{s.boxes, s.shape.boxes, s.candidates}, s.tiles, stream);
    if (status == cudaSuccess) {
        status = mergeSort(s.candidates, s.spare, scores, ByKey{}, sorted, stream, s.total);
    }
    if (status == cudaSuccess) {
        const int64_t pieces = std::max(s.segments + 1, s.segments * s.words);
        status = launch(startKernel<Boxes>, gridBlocks(ceilDivide(pieces, kThreads)), kThreads, 0, stream, s, sorted);
    }
    return status;
}

// The rounds over the stripes of the longest segment that there may be.
template <typename Boxes>
cudaError_t suppress(const Selection<Boxes>& s, const Candidate* sorted, cudaStream_t stream) {
    cudaError_t status = cudaSuccess;
    const int64_t tasks = ceilDivide(s.words, 32) * (kWord / kRowChunk);
    const auto threads = static_cast<unsigned int>(std::min<int64_t>(32 * (1 + tasks), kResolveThreads));
    for (int64_t round = 0; status == cudaSuccess && round * s.stripe < s.shape.boxes; ++round) {
        const int64_t mostKept = std::min(round * s.stripe, s.room);
        const int64_t works = (ceilDivide(mostKept, Boxes::kKeptChunk) + s.words / 2 + 1) * (s.words + 1);
        const int64_t blocks = std::min(works, ceilDivide(kCompareBlocks, s.segments));
        status = launch(compareKernel<Boxes>, gridBlocks(s.segments * blocks), kThreads, 0, stream, s, sorted, round,
                        blocks);
        if (status == cudaSuccess) {
            status = launch(resolveKernel<Boxes>, gridBlocks(s.segments), threads, 0, stream, s, sorted, round);
        }
    }
    return status;
}

// Writes the boxes that are left, best first, as rows (image, class, box) in this order, and their number. `s` is laid out
// in the workspace, and has scores.
template <typename Boxes>
cudaError_t selectBoxes(const Selection<Boxes>& s, int64_t* selected, int32_t* count, cudaStream_t stream) {
    Candidate* sorted = s.candidates;
    cudaError_t status = inOrder(s, sorted, stream);
    if (status == cudaSuccess) {
        status = suppress(s, sorted, stream);
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
