// The state that the kernels of the suppression of boxes share, and its layout in the workspace.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/box_selection.cuh"
#include "kernels/dispatch.cuh"
#include "kernels/enumerate.cuh"

namespace trtsmith {

namespace box_suppression_detail {

constexpr int kWord = 64;        // candidates in a word of bits
constexpr int kMostWords = 256;  // of a stripe

using Bits = unsigned long long;

// Candidates that are compared with each other at a time, at most: the tables of bits stay below 40 MiB up to 1,280
// segments, and have 8 KB each from there on.
inline int64_t mostOfStripe(int64_t segments) {
    int64_t stripe = int64_t{kMostWords} * kWord;
    while (stripe > 256 && segments > (int64_t{40} << 23) / (stripe * stripe)) {
        stripe /= 2;
    }
    return stripe;
}

// Words of bits that tables, or rows of them, take for up to so many segments of up to so many boxes: fewer have longer stripes,
// and TensorRT asks for the workspace once, with the most. No stripe has more than `most` candidates.
inline int64_t mostWords(int64_t segments, int64_t boxes, int64_t most, bool tables) {
    int64_t words = 0;
    for (int64_t stripe = int64_t{kMostWords} * kWord; stripe >= 256; stripe /= 2) {
        const int64_t fit = stripe > 256 ? (int64_t{40} << 23) / (stripe * stripe) : segments;
        const int64_t rows = ceilDivide(std::min({stripe, boxes, most}), kWord) * kWord;
        words = std::max(words, std::min(fit, segments) * (rows / kWord) * (tables ? rows : 1));
    }
    return words;
}

struct Candidate {
    uint64_t key;  // segment (image and class), then the score from high to low
    int64_t at;    // in the scores
};

// What all kernels of the suppression share. A segment is one class of one image.
template <typename Boxes>
struct Selection {
    using Box = typename Boxes::Box;

    Boxes boxes;
    BoxSelectionShape shape;
    int64_t segments;
    int64_t room;    // kept boxes of a segment
    int64_t stripe;  // candidates
    int64_t words;   // of a stripe
    Candidate* candidates;
    Candidate* spare;
    int64_t* starts;   // [segments + 1]: in the sorted candidates
    int64_t* counts;   // [segments]: kept boxes
    int64_t* offsets;  // [segments]: in the result
    int64_t* total;    // of candidates
    Bits* masks;       // [segments, stripe, words]: later candidates of the stripe that each one overlaps
    Bits* dead;        // [segments, words]: candidates of the stripe that overlap a box kept before it
    int64_t* tiles;
    int32_t* kept;  // [segments, room]: boxes

    __device__ int64_t limit() const {
        const int64_t wanted = boxes.wanted();
        return wanted < room ? (wanted > 0 ? wanted : 0) : room;
    }
    __device__ int64_t firstOf(int64_t segment, int64_t round) const { return starts[segment] + round * stripe; }
    // Candidates of a segment in this round; none once it has as many boxes as are wanted.
    __device__ int64_t sizeOf(int64_t segment, int64_t round) const {
        const int64_t left = starts[segment + 1] - firstOf(segment, round);
        return counts[segment] >= limit() ? 0 : left < stripe ? (left > 0 ? left : 0) : stripe;
    }
    __device__ Box candidate(const Candidate* sorted, int64_t segment, int64_t at) const {
        return box(segment, sorted[at].at - segment * shape.boxes);
    }
    __device__ Box box(int64_t segment, int64_t index) const {
        return boxes.box(segment / shape.classes * shape.boxes + index);
    }
};

// Lays the workspace out, or only measures it where it is null. False for sizes that are refused.
template <typename Boxes>
bool layOut(const BoxSelectionShape& shape, void* workspace, Selection<Boxes>& s, size_t& size) {
    int64_t scores = 0;
    if (!elementCount({shape.batch, shape.classes, shape.boxes}, scores) || shape.boxes > INT32_MAX || shape.most < 0) {
        return false;
    }
    s.shape = shape;
    s.segments = shape.batch * shape.classes;
    s.room = shape.most < shape.boxes ? shape.most : shape.boxes;
    if (s.segments * s.room > INT32_MAX) {  // results are counted in int32, and a segment is half a key
        return false;
    }
    if (scores == 0 || s.room == 0) {
        size = 0;
        return true;
    }
    const int64_t most = std::min(mostOfStripe(s.segments), Boxes::kMostStripe);
    s.words = ceilDivide(ceilDivide(shape.boxes, ceilDivide(shape.boxes, most)), kWord);  // stripes of the same length
    s.stripe = s.words * kWord;
    size_t at = 0;
    const auto place = [&at, workspace](auto*& pointer, int64_t count) {
        if (workspace != nullptr) {
            pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(static_cast<char*>(workspace) + at);
        }
        at += static_cast<size_t>(count) * sizeof(*pointer);
    };
    place(s.candidates, scores);
    place(s.spare, scores);
    place(s.starts, s.segments + 1);
    place(s.counts, s.segments);
    place(s.offsets, s.segments);
    place(s.total, 1);
    place(s.masks, mostWords(s.segments, shape.boxes, Boxes::kMostStripe, true));
    place(s.dead, mostWords(s.segments, shape.boxes, Boxes::kMostStripe, false));
    place(s.tiles, static_cast<int64_t>(enumerateWorkspace(scores) / sizeof(int64_t)));
    place(s.kept, s.segments * s.room);
    size = at;
    return true;
}

}  // namespace box_suppression_detail
}  // namespace trtsmith
