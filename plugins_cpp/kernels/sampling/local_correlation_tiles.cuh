// Correlation of patches on tensor cores, from 2-byte maps with their channels last. For local_correlation.cu alone.
//
// Of outputs in one row whose columns are `apart` from each other, the partners lie on one lattice: output u and displacement
// p have partner ratio * u + p of it. So 16 such outputs and their partners are the two factors of a matrix product, of
// which a band is what is wanted.
#pragma once

#include "kernels/channels_last.cuh"
#include "kernels/convert.cuh"
#include "kernels/sampling/local_correlation.cuh"
#include "kernels/tensor_core.cuh"

namespace trtsmith {
namespace {

constexpr int32_t kWarp = 32;
constexpr int32_t kTileWarps = 4;
constexpr int32_t kTileThreads = kTileWarps * kWarp;
constexpr int32_t kTileRows = 16;    // outputs of a warp
constexpr int32_t kTileColumns = 8;  // partners of a product
constexpr int32_t kStepChannels = 32;
constexpr int32_t kSegment = kTileWarps * kTileRows;  // columns of the output that a block has, at most
constexpr int32_t kTilePitch = kSegment + 2;
// Displacements in a row: a block keeps kTilePitch outputs of each in shared memory.
constexpr int64_t kMostPatch = 160;

struct TileArguments {
    LocalCorrelationParams params;
    LocalCorrelationShape shape;
    const void* first;   // T [N, H * W, padded]
    const void* second;  // T [N, H * W, padded]
    int64_t padded;
    FastDivider rows;      // of the output
    FastDivider segments;  // of a row of the output
    FastDivider displacements;
    int32_t pieces;
    int32_t patch;
    int32_t apart;  // columns between outputs of a warp: at most kTileWarps
    int32_t ratio;
    int32_t groups;  // of 16 outputs that a block has of each residue
    int32_t tiles;   // of partners
};

// What a warp works on: outputs column + apart * u of a row.
struct TileRow {
    int64_t image;
    int64_t row;
    int64_t column;
    int32_t displacement;  // row of displacements
};

// Columns of the maps that output u and partner v read for a tap.
struct TileColumns {
    int32_t ofFirst;    // for u = 0
    int32_t ofSecond;   // for v = 0
    int32_t stepFirst;  // from one to the next
    int32_t stepSecond;
    int32_t width;

    __device__ int32_t first(int32_t u) const { return ofFirst + u * stepFirst; }
    __device__ int32_t second(int32_t v) const { return ofSecond + v * stepSecond; }
    __device__ bool has(int32_t column) const { return column >= 0 && column < width; }
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

// Products of 16 outputs with kTiles * 8 partners from `partner` on, of one tap, whose rows of the maps are at `first` and
// `second`. A lane reads eight channels of a pixel at once; which of a product's inner indices they are is the same on both
// sides, so that the sum is.
template <typename T, int kTiles>
__device__ inline void multiplyRows(const TileArguments& a, const TileColumns& columns, const T* first, const T* second,
                                    int32_t partner, float (&sums)[kTiles][4]) {
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarp;
    const int32_t line = lane / 4;
    const int32_t channel = lane % 4 * 8;
    const int32_t padded = static_cast<int32_t>(a.padded);
    const uint4 nothing{0U, 0U, 0U, 0U};
    constexpr int32_t kNowhere = -1;
    int32_t rows[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int32_t column = columns.first(line + 8 * i);
        rows[i] = columns.has(column) ? column * padded + channel : kNowhere;
    }
    int32_t partners[kTiles];
#pragma unroll
    for (int k = 0; k < kTiles; ++k) {
        const int32_t column = columns.second(partner + k * kTileColumns + line);
        partners[k] = columns.has(column) ? column * padded + channel : kNowhere;
    }
    for (int32_t done = 0; done < padded; done += kStepChannels) {
        const bool exists = done + channel < padded;
        uint4 ofRows[2];
        uint4 ofPartners[kTiles];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            ofRows[i] =
                exists && rows[i] >= 0 ? __ldg(reinterpret_cast<const uint4*>(first + rows[i] + done)) : nothing;
        }
#pragma unroll
        for (int k = 0; k < kTiles; ++k) {
            ofPartners[k] = exists && partners[k] >= 0
                                ? __ldg(reinterpret_cast<const uint4*>(second + partners[k] + done))
                                : nothing;
        }
        const uint32_t low[4] = {ofRows[0].x, ofRows[1].x, ofRows[0].y, ofRows[1].y};
        const uint32_t high[4] = {ofRows[0].z, ofRows[1].z, ofRows[0].w, ofRows[1].w};
#pragma unroll
        for (int k = 0; k < kTiles; ++k) {
            multiplyTile(sums[k], low, ofPartners[k].x, ofPartners[k].y, T{});
            multiplyTile(sums[k], high, ofPartners[k].z, ofPartners[k].w, T{});
        }
    }
}

// All taps of 16 outputs with kTiles * 8 partners; a product of which one factor lies outside does not count.
template <typename T, int kTiles>
__device__ inline void correlateTiles(const TileArguments& a, const TileRow& at, int32_t partner,
                                      float (&totals)[kTiles][4]) {
    const LocalCorrelationShape& s = a.shape;
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarp;
    const int64_t plane = at.image * s.height;
    for (int64_t i = 0; i < s.kernelHeight; ++i) {
        const int64_t y = at.row * s.strideHeight - s.paddingTop + i * s.dilationHeight;
        const int64_t partnerY = y + (at.displacement - s.radius) * s.stepHeight;
        if (y < 0 || y >= s.height || partnerY < 0 || partnerY >= s.height) {
            continue;
        }
        const T* const first = static_cast<const T*>(a.first) + (plane + y) * s.width * a.padded;
        const T* const second = static_cast<const T*>(a.second) + (plane + partnerY) * s.width * a.padded;
        for (int64_t j = 0; j < s.kernelWidth; ++j) {
            const int64_t x = at.column * s.strideWidth - s.paddingLeft + j * s.dilationWidth;
            const TileColumns columns{static_cast<int32_t>(x), static_cast<int32_t>(x - s.radius * s.stepWidth),
                                      a.apart * static_cast<int32_t>(s.strideWidth), static_cast<int32_t>(s.stepWidth),
                                      static_cast<int32_t>(s.width)};
            float sums[kTiles][4] = {};
            multiplyRows<T, kTiles>(a, columns, first, second, partner, sums);
#pragma unroll
            for (int k = 0; k < kTiles; ++k) {
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const int32_t u = lane / 4 + e / 2 * 8;
                    const int32_t v = partner + k * kTileColumns + lane % 4 * 2 + e % 2;
                    totals[k][e] += columns.has(columns.first(u)) && columns.has(columns.second(v)) ? sums[k][e] : 0.0F;
                }
            }
        }
    }
}

#endif

// Empty in code for architectures below sm_80. A block has up to 64 neighbouring outputs of a row, and one row of
// displacements. They go through shared memory, as a warp
// has every apart-th of them: [patch, kTilePitch].
template <typename T, int kTiles>
__global__ void __launch_bounds__(kTileThreads, 4) tileKernel(const __grid_constant__ TileArguments a) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    extern __shared__ __align__(16) unsigned char sharedBytes[];
    T* const outputs = reinterpret_cast<T*>(sharedBytes);
    const LocalCorrelationShape& s = a.shape;
    const int32_t thread = static_cast<int32_t>(threadIdx.x);
    const int32_t lane = thread % kWarp;
    const int32_t residue = thread / kWarp % a.apart;
    const int32_t group = thread / kWarp / a.apart;
    const int32_t length = kTileRows * a.apart * a.groups;  // outputs of a block
    waitForTurning();
    for (int32_t piece = static_cast<int32_t>(blockIdx.x); piece < a.pieces; piece += static_cast<int32_t>(gridDim.x)) {
        const int32_t line = a.displacements.quotient(piece);
        const int32_t next = a.segments.quotient(line);
        const int32_t image = a.rows.quotient(next);
        TileRow at{};
        at.displacement = piece - line * a.patch;
        at.image = image;
        at.row = next - image * static_cast<int32_t>(a.rows.divisor);
        const int64_t segment = line - next * static_cast<int32_t>(a.segments.divisor);
        const int64_t firstColumn = segment * length;
        at.column = firstColumn + residue + group * kTileRows * a.apart;
        __syncthreads();
        for (int32_t tile = 0; group < a.groups && tile < a.tiles; tile += kTiles) {
            float totals[kTiles][4] = {};
            correlateTiles<T, kTiles>(a, at, tile * kTileColumns, totals);
#pragma unroll
            for (int k = 0; k < kTiles; ++k) {
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const int32_t u = lane / 4 + e / 2 * 8;
                    const int32_t v = (tile + k) * kTileColumns + lane % 4 * 2 + e % 2;
                    const int32_t p = v - a.ratio * u;
                    if (p >= 0 && p < a.patch) {
                        const int32_t column = residue + (group * kTileRows + u) * a.apart;
                        outputs[p * kTilePitch + column] = fromFloat<T>(totals[k][e]);
                    }
                }
            }
        }
        __syncthreads();
        const int64_t left = s.outWidth - firstColumn;
        const int32_t count = static_cast<int32_t>(left < length ? left : length);
        T* const target = static_cast<T*>(a.params.output) + firstColumn + at.row * s.outWidth +
                          (at.image * a.patch + at.displacement) * a.patch * s.outHeight * s.outWidth;
        for (int32_t p = thread / kWarp; p < a.patch; p += kTileWarps) {
            for (int32_t column = lane; column < count; column += kWarp) {
                target[p * s.outHeight * s.outWidth + column] = outputs[p * kTilePitch + column];
            }
        }
    }
#else
    static_cast<void>(a);
#endif
}

}  // namespace
}  // namespace trtsmith
