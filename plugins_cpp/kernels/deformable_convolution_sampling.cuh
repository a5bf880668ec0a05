// A sample of the deformable convolution, for the kernels that sample straight into shared memory:
//   locate: position, bilinear weights times mask for each (site, pixel) of a step
//   sample: four corners, fp32 arithmetic, rounded to the operand's type, into a row of shared memory
// x lies channels-last, so that one sample of 8 (fp16, bf16) or 4 (fp32) channels is four 16-byte loads. Both stages are
// cut in two, so that a caller can do something else while the loads of the first half are under way.
#pragma once

#include "convert.cuh"
#include "deformable_convolution_layout.cuh"

namespace trtsmith {
namespace tiled {

constexpr int64_t kMaxChunkBytes = (int64_t{1} << 32) - 1;  // of x in one launch: a place in it fits in a uint32
// Positions are exact in fp32 while offsets and origins are far smaller than 2^22; what lies farther is outside.
constexpr int32_t kMaxExtent = 1 << 20;

template <typename T>
struct Arguments {
    const T* x;  // [chunk, PaddedPlanes, channel of the chunk]
    const T* offset;
    const T* mask;
    const typename OperandOf<T>::type* weight;
    const int32_t* rowExponents;
    const T* bias;
    T* output;
    Header* header;
    int64_t chunkBytes;
    int64_t lineBytes;
    int64_t outPlane;
    int64_t outChannels;
    int64_t offsetGroups;
    int64_t tiles;
    DepthOrder order;
    FastDivider kernelWidth;
    FastDivider offsetUnits;  // units of channels in an offset group
    int32_t pixels;           // output pixels of all images of this launch
    uint32_t pixelBytes;
    uint32_t imagePixels;  // of x, padded
    uint32_t firstPixel;
    uint32_t outsidePixel;
    int32_t pitch;
    int32_t height;
    int32_t width;
    int32_t outWidth;
    int32_t strideHeight;
    int32_t strideWidth;
    int32_t paddingTop;
    int32_t paddingLeft;
    int32_t dilationHeight;
    int32_t dilationWidth;
    int32_t groups;
    int32_t groupUnits;
    int32_t groupChunks;
    int32_t laneBits;  // 2^laneBits neighbouring lanes sample one pixel
    int32_t groupOut;
    int32_t outTiles;
    bool vectorStores;
};

struct Pixel {
    int32_t image;    // negative past the last pixel
    int32_t inPlane;  // row * Wo + column
    int32_t originY;  // position of tap (0, 0) before its offset
    int32_t originX;
};

// The tile's state that a thread keeps.
struct Tile {
    int32_t group;
    int32_t outBegin;    // in the group
    int32_t pixelBegin;  // among all output pixels
};

// Tiles that share their pixels are neighbours, so that they run together and find x in the cache.
template <int kOut, int kPixels, typename T>
__device__ inline Tile tileOf(const Arguments<T>& a, int64_t index) {
    const int64_t pixelGroup = index / a.outTiles;
    const int64_t pixelTile = pixelGroup / a.groups;
    return {static_cast<int32_t>(pixelGroup - pixelTile * a.groups),
            static_cast<int32_t>(index - pixelGroup * a.outTiles) * kOut, static_cast<int32_t>(pixelTile * kPixels)};
}

template <typename T>
__device__ inline Pixel pixelOf(const Arguments<T>& a, int32_t number) {
    Pixel pixel{-1, 0, 0, 0};
    if (number < a.pixels) {
        pixel.image = static_cast<int32_t>(number / a.outPlane);
        pixel.inPlane = static_cast<int32_t>(number - pixel.image * a.outPlane);
        const int32_t row = pixel.inPlane / a.outWidth;
        pixel.originY = row * a.strideHeight - a.paddingTop;
        pixel.originX = (pixel.inPlane - row * a.outWidth) * a.strideWidth - a.paddingLeft;
    }
    return pixel;
}

// What the position of one (site, pixel) needs from device memory, as bits: whatever is done with them, even putting two
// of 16 bits into one register, would wait for the loads.
struct Location {
    uint32_t dy;
    uint32_t dx;
    uint32_t modulation;
};

__device__ inline uint32_t loadBits(const float* source) { return __float_as_uint(__ldg(source)); }
template <typename T>
__device__ inline uint32_t loadBits(const T* source) {
    return __ldg(reinterpret_cast<const unsigned short*>(source));
}

__device__ inline float fromBits(uint32_t bits, float) { return __uint_as_float(bits); }
__device__ inline float fromBits(uint32_t bits, __half) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}
__device__ inline float fromBits(uint32_t bits, __nv_bfloat16) { return __uint_as_float(bits << 16); }

template <typename T>
__device__ inline Location beginLocate(const Arguments<T>& a, const Tile& tile, int32_t site, const Pixel& pixel) {
    Location location{0U, 0U, 0U};
    if (site < a.order.sites && pixel.image >= 0) {  // else it pads the depth or the pixels
        const int32_t chunk = a.order.taps.quotient(site);
        const int32_t taps = static_cast<int32_t>(a.order.taps.divisor);
        const int32_t tap = site - chunk * taps;
        const int32_t unit = tile.group * a.groupUnits + chunk * static_cast<int32_t>(a.order.chunkUnits.divisor);
        const int32_t offsetGroup = a.offsetUnits.quotient(unit);
        const int64_t place = (pixel.image * a.offsetGroups + offsetGroup) * taps + tap;
        const T* offset = a.offset + place * 2 * a.outPlane + pixel.inPlane;
        location.dy = loadBits(offset);
        location.dx = loadBits(offset + a.outPlane);
        if (a.mask != nullptr) {
            location.modulation = loadBits(a.mask + place * a.outPlane + pixel.inPlane);
        }
    }
    return location;
}

// One axis of a position: the neighbour before it, what lies between, and whether it is within a pixel of the image.
// floor and fraction of the offset are exact, which those of origin + offset would not be in fp32.
struct Coordinate {
    int32_t index;
    float fraction;
    bool near;
};

__device__ inline Coordinate coordinate(int32_t origin, float offset, int32_t size) {
    constexpr float kFar = 2097152.0F;       // 2^21: outside, whatever the origin; NaN becomes this too
    constexpr float kInteger = 12582912.0F;  // 1.5 * 2^23: the sum with it has no fraction
    const float clamped = fmaxf(fminf(offset, kFar), -kFar);
    const float shifted = __fadd_rd(clamped, kInteger);
    Coordinate c;
    c.index = origin + (__float_as_int(shifted) - __float_as_int(kInteger));
    c.fraction = clamped - (shifted - kInteger);
    c.near = c.index < size && c.index + (c.fraction > 0.0F ? 1 : 0) >= 0;
    return c;
}

// Factors of the four neighbours of the position (originY + dy, originX + dx), and the upper left one in pixels of x. All
// four can be read. imagePixel: pixels before the image. exists: false makes all factors 0 and reads zeros.
template <typename T>
__device__ inline void position(const Arguments<T>& a, const Location& location, int32_t originY, int32_t originX,
                                uint32_t imagePixel, bool exists, float scale, float4* factor, uint32_t* cell) {
    const Coordinate y = coordinate(originY, fromBits(location.dy, T{}), a.height);
    const Coordinate x = coordinate(originX, fromBits(location.dx, T{}), a.width);
    const float mask = a.mask != nullptr ? fromBits(location.modulation, T{}) : 1.0F;
    const float modulation = exists ? mask * (OperandOf<T>::kSplit ? scale : 1.0F) : 0.0F;
    // A sample outside still meets the mask: 0 * NaN stays NaN, as in the reference implementations.
    const float lower = modulation * y.fraction;
    const float upper = modulation * (1.0F - y.fraction);
    const float left = 1.0F - x.fraction;
    *factor = make_float4(upper * left, upper * x.fraction, lower * left, lower * x.fraction);
    *cell =
        exists && y.near && x.near ? imagePixel + static_cast<uint32_t>(y.index * a.pitch + x.index) : a.outsidePixel;
}

// `cell`: where the position's upper left neighbour lies in x, in bytes from the chunk.
template <typename T>
__device__ inline void finishLocate(const Arguments<T>& a, const Location& location, int32_t site, const Pixel& pixel,
                                    float scale, float4* factor, uint32_t* cell) {
    const int32_t tap = site - a.order.taps.quotient(site) * static_cast<int32_t>(a.order.taps.divisor);
    const int32_t kernelRow = a.kernelWidth.quotient(tap);
    const int32_t kernelColumn = tap - kernelRow * static_cast<int32_t>(a.kernelWidth.divisor);
    const bool exists = site < a.order.sites && pixel.image >= 0;
    uint32_t place;
    position(a, location, pixel.originY + kernelRow * a.dilationHeight, pixel.originX + kernelColumn * a.dilationWidth,
             a.firstPixel + static_cast<uint32_t>(pixel.image) * a.imagePixels, exists, scale, factor, &place);
    *cell = place * a.pixelBytes;
}

struct Corners {
    uint4 words[4];
};

__device__ inline void beginSample(const char* channel, const char* lower, uint32_t pixelBytes, uint32_t cell,
                                   Corners& corners) {
    corners.words[0] = __ldg(reinterpret_cast<const uint4*>(channel + cell));
    corners.words[1] = __ldg(reinterpret_cast<const uint4*>(channel + cell + pixelBytes));
    corners.words[2] = __ldg(reinterpret_cast<const uint4*>(lower + cell));
    corners.words[3] = __ldg(reinterpret_cast<const uint4*>(lower + cell + pixelBytes));
}

template <typename T>
__device__ inline float element(const uint4& word, int index) {
    constexpr int kCount = kUnitBytes / static_cast<int>(sizeof(T));
    T elements[kCount];
    memcpy(static_cast<void*>(elements), &word, sizeof(word));
    return toFloat(elements[index]);
}

__device__ inline uint32_t packPair(float first, float second, __half) {
    const __half2 pair = __floats2half2_rn(first, second);
    uint32_t word;
    memcpy(&word, &pair, sizeof(word));
    return word;
}

__device__ inline uint32_t packPair(float first, float second, __nv_bfloat16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    uint32_t word;
    memcpy(&word, &pair, sizeof(word));
    return word;
}

// Into the row of its pixel; `key`, of 3 bits, exchanges the row's 16-byte chunks.
template <typename T>
__device__ inline void finishSample(const Corners& corners, const float4& factor, int unit, int key, char* row) {
    using Operand = typename OperandOf<T>::type;
    constexpr int kCount = kUnitBytes / static_cast<int>(sizeof(T));
    float values[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        const float upper = fmaf(factor.y, element<T>(corners.words[1], i), factor.x * element<T>(corners.words[0], i));
        values[i] =
            fmaf(factor.w, element<T>(corners.words[3], i), fmaf(factor.z, element<T>(corners.words[2], i), upper));
    }
    if constexpr (OperandOf<T>::kSplit) {
        float rest[kCount];
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            rest[i] = values[i] - toFloat(fromFloat<Operand>(values[i]));
        }
        const uint2 high =
            make_uint2(packPair(values[0], values[1], Operand{}), packPair(values[2], values[3], Operand{}));
        const uint2 low = make_uint2(packPair(rest[0], rest[1], Operand{}), packPair(rest[2], rest[3], Operand{}));
        // Rows of odd keys store their low half first: what two neighbouring rows store at a time lies in different banks.
        const bool odd = (key & 1) != 0;
        char* const place = row + (((unit >> 1) ^ key) << 4) + (unit & 1) * 8;
        char* const lowPlace = row + (((4 + (unit >> 1)) ^ key) << 4) + (unit & 1) * 8;
        *reinterpret_cast<uint2*>(odd ? lowPlace : place) = odd ? low : high;
        *reinterpret_cast<uint2*>(odd ? place : lowPlace) = odd ? high : low;
    } else {
        *reinterpret_cast<uint4*>(row + ((unit ^ key) << 4)) =
            make_uint4(packPair(values[0], values[1], Operand{}), packPair(values[2], values[3], Operand{}),
                       packPair(values[4], values[5], Operand{}), packPair(values[6], values[7], Operand{}));
    }
}

}  // namespace tiled
}  // namespace trtsmith
