// A block's tile of grouped deformable sampling: what it is, and how its inputs come to shared memory.
//
// A block owns some output pixels and a slice of their channels, 128 bytes. A group's corner is 32 or 64 bytes of a
// pixel, but the first-level cache looks up a line of 128 bytes for it, and a warp touches up to 16 of them with a
// load: where samples are read through it, look-ups bind. In shared memory, eight lanes that read the eight words of a
// slice meet no bank conflict, be the groups' places what they may.
#pragma once

#include <cstdint>

#include "kernels/convert.cuh"
#include "kernels/fast_division.cuh"
#include "kernels/sampling/grouped_deformable_sampling_arguments.cuh"
#include "kernels/sampling/grouped_deformable_sampling_words.cuh"
#include "kernels/sampling/shared_words.cuh"

namespace trtsmith {

constexpr int kSliceBytes = 128;
constexpr int kSliceWords = kSliceBytes / kWordBytes;
constexpr int kPieceBytes = 8;  // offsets and mask come in pieces of that many, where they are aligned

// Offsets or mask of one pixel, in bytes.
struct TileNumbers {
    const char* source;  // of the first pixel
    int64_t distance;    // from one pixel to the next
    int64_t all;         // of all groups
    int32_t group;       // of one
    int32_t slice;       // of a slice's
};

struct GroupedTileArguments {
    GroupedWordArguments words;
    TileNumbers offsets;  // with the mask, where it lies in the same tensor
    TileNumbers mask;     // where it lies apart, or else empty
    int32_t weights;      // from a group's first offset to its mask, in shared memory, or from that of a slice
    int32_t weightsGroup;
    int32_t tileHeight;  // output pixels
    int32_t regionHeight;
    int32_t fillLines;  // rows of the region that the block's threads fill at a time
    int32_t startDown;  // row of the input where the region of the first tile begins
    int32_t startAcross;
    FastDivider tileWidth;
    FastDivider regionWidth;
    FastDivider slices;
    FastDivider tilesAcross;
    FastDivider tilesDown;
    bool pieces;  // offsets and mask can be copied in pieces
};

// Where a block works.
struct TilePlace {
    int32_t image;
    int32_t slice;
    int32_t outRow;  // of the tile's first pixel
    int32_t outColumn;
    int32_t row;  // of the region's first pixel, which may lie outside of the input
    int32_t column;
};

__device__ inline TilePlace tilePlace(const GroupedTileArguments& a, int32_t block) {
    const GroupedDeformableSamplingShape& s = a.words.common.shape;
    const int32_t tile = a.slices.quotient(block);
    const int32_t line = a.tilesAcross.quotient(tile);
    const int32_t image = a.tilesDown.quotient(line);
    const int32_t tileColumn = tile - line * static_cast<int32_t>(a.tilesAcross.divisor);
    const int32_t outRow = (line - image * static_cast<int32_t>(a.tilesDown.divisor)) * a.tileHeight;
    const int32_t outColumn = tileColumn * static_cast<int32_t>(a.tileWidth.divisor);
    return {image,
            block - tile * static_cast<int32_t>(a.slices.divisor),
            outRow,
            outColumn,
            a.startDown + outRow * static_cast<int32_t>(s.strideHeight),
            a.startAcross + outColumn * static_cast<int32_t>(s.strideWidth)};
}

// The region, row by row, with zeros for what lies outside of the input: no position in it needs a clamp. A thread owns
// a word of a column.
__device__ inline void fillRegion(const GroupedTileArguments& a, const TilePlace& place, char* region) {
    const GroupedDeformableSamplingShape& s = a.words.common.shape;
    const uint32_t pixelWords = a.words.pixelWords.divisor;
    const int32_t height = static_cast<int32_t>(s.height);
    const int32_t width = static_cast<int32_t>(s.width);
    const int32_t regionWidth = static_cast<int32_t>(a.regionWidth.divisor);
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % kSliceWords;
    const int32_t pixel = static_cast<int32_t>(threadIdx.x) / kSliceWords;
    const int32_t firstLine = a.regionWidth.quotient(pixel);
    if (firstLine >= a.fillLines) {
        return;
    }
    const int32_t x = place.column + (pixel - firstLine * regionWidth);
    const uint32_t word = static_cast<uint32_t>(place.slice * kSliceWords + lane);
    const bool isInput = word < pixelWords && static_cast<uint32_t>(x) < static_cast<uint32_t>(width);
    const char* image = static_cast<const char*>(a.words.common.params.x) +
                        int64_t{place.image} * height * width * pixelWords * kWordBytes;
    char* target = region + static_cast<int32_t>(threadIdx.x) * kWordBytes;
    const uint32_t columns = static_cast<uint32_t>(width);
    uint32_t index =
        (static_cast<uint32_t>(place.row + firstLine) * columns + static_cast<uint32_t>(x)) * pixelWords + word;
    for (int32_t line = firstLine; line < a.regionHeight; line += a.fillLines) {
        const bool inside = isInput && static_cast<uint32_t>(place.row + line) < static_cast<uint32_t>(height);
        copyToShared<uint4>(target, wordAt(image, inside ? index : 0U), inside);
        target += a.fillLines * regionWidth * kSliceBytes;
        index += static_cast<uint32_t>(a.fillLines) * columns * pixelWords;
    }
}

// Offsets and mask of the tile's pixels, one pixel's after the other's: a warp to a row of pixels, a lane to a piece.
template <typename Piece>
__device__ inline void fillNumbers(const GroupedTileArguments& a, const TilePlace& place, char* numbers) {
    constexpr int kPiece = static_cast<int>(sizeof(Piece));
    const int32_t tileWidth = static_cast<int32_t>(a.tileWidth.divisor);
    const int32_t outHeight = static_cast<int32_t>(a.words.common.shape.outHeight);
    const int32_t outWidth = static_cast<int32_t>(a.words.common.shape.outWidth);
    const int32_t lines = min(a.tileHeight, outHeight - place.outRow);
    const int32_t columns = min(tileWidth, outWidth - place.outColumn);
    const int32_t firstGroup = a.words.groupWords.quotient(place.slice * kSliceWords);
    const int64_t firstPixel = (int64_t{place.image} * outHeight + place.outRow) * outWidth + place.outColumn;
    const int32_t pixelBytes = a.offsets.slice + a.mask.slice;
    for (int32_t at = static_cast<int32_t>(threadIdx.x) % 32 * kPiece; at < pixelBytes; at += 32 * kPiece) {
        const TileNumbers& part = at < a.offsets.slice ? a.offsets : a.mask;
        const int64_t distance = part.distance;
        const int64_t from = int64_t{firstGroup} * part.group + (at < a.offsets.slice ? at : at - a.offsets.slice);
        if (from >= part.all) {
            continue;
        }
        for (int32_t line = static_cast<int32_t>(threadIdx.x) / 32; line < lines;
             line += static_cast<int32_t>(blockDim.x) / 32) {
            const char* source = part.source + (firstPixel + int64_t{line} * outWidth) * distance + from;
            char* target = numbers + line * tileWidth * pixelBytes + at;
            for (int32_t column = 0; column < columns; ++column) {
                copyToShared<Piece>(target, source, true);
                source += distance;
                target += pixelBytes;
            }
        }
    }
}

}  // namespace trtsmith
