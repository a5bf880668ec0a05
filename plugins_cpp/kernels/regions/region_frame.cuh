// The geometry of a region: where the samples of its bins lie. In double, as it is worked out once for many channels and a
// position's error is an error of every weight. Also compiles as host code.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>

#include "kernels/regions/region_align.cuh"

namespace trtsmith {

// A region in the frame in which its bins lie along the axes: position = origin + rotation * (local position).
struct RegionFrame {
    const void* data;  // of its level
    int64_t image;
    int32_t height;
    int32_t width;
    int64_t empty;  // not 0: the output is zero. As wide as the others: a frame is copied as words, all of them written
    double originY, originX;
    double cosine, sine;
    double startY, startX;  // local position of the first bin's corner
    double binY, binX;      // size of a bin
    double sizeY, sizeX;    // of the region
    double gridY, gridX;    // samples along each side of a bin: whole numbers
    double stepY, stepX;    // from one to the next
    double lowY, highY;     // local positions outside of these bounds lie outside of the map
    double lowX, highX;
    int32_t mostY, mostX;  // samples along each side of a bin that can be inside the bounds
};

__host__ __device__ inline bool isNumber(float value) { return fabsf(value) <= 3.402823466e+38F; }  // false for NaN

// The samples along one side of a bin. As the frameworks compute them, in float, so that a size next to a whole number is
// rounded up where it is there.
__host__ __device__ inline double regionGrid(float size, int64_t bins, int32_t samplingRatio) {
    constexpr float kMost = 16777216.0F;
    if (samplingRatio > 0) {
        return samplingRatio;
    }
    const float grid = ceilf(size / static_cast<float>(bins));
    return grid >= 1.0F && grid <= kMost ? static_cast<double>(grid) : 0.0;  // 0 for NaN
}

// How many of the samples along one side of a bin can lie between two bounds: they are `step` apart. Two more, for
// rounding; `grid` is less than 2^31.
__host__ __device__ inline int32_t samplesBetween(double low, double high, double step, double grid) {
    const double most = step == 0.0 ? grid : (high - low) / fabs(step) + 4.0;
    return static_cast<int32_t>(most < grid ? most : grid);
}

// The first of them, in a bin whose first corner is at `start`.
__host__ __device__ inline double firstSample(double low, double high, double start, double step, double grid,
                                              int32_t most) {
    if (step == 0.0 || static_cast<double>(most) >= grid) {
        return 0.0;
    }
    const double first = floor(fmin((low - start) / step, (high - start) / step) - 1.5);
    return fmin(fmax(first, 0.0), grid);
}

// The level of a region of the given size: how often it is twice finestScale. No level for what is not a number.
__host__ __device__ inline int32_t regionLevel(float width, float height, float finestScale, int32_t levelCount) {
    const float scale = sqrtf(width * height) / finestScale + 1e-6F;
    int32_t level = 0;
    for (float least = 2.0F; level + 1 < levelCount && scale >= least; least *= 2.0F) {
        ++level;
    }
    return level;
}

// Bounds of the map, and one pixel around it, in the local frame; what follows from them for the samples.
__host__ __device__ inline void boundRegion(RegionFrame& frame) {
    frame.lowY = frame.lowX = INFINITY;
    frame.highY = frame.highX = -INFINITY;
    for (int corner = 0; corner < 4; ++corner) {
        const double y = ((corner & 1) != 0 ? static_cast<double>(frame.height) : -1.0) - frame.originY;
        const double x = ((corner & 2) != 0 ? static_cast<double>(frame.width) : -1.0) - frame.originX;
        const double localY = y * frame.cosine + x * frame.sine;
        const double localX = x * frame.cosine - y * frame.sine;
        frame.lowY = fmin(frame.lowY, localY);
        frame.highY = fmax(frame.highY, localY);
        frame.lowX = fmin(frame.lowX, localX);
        frame.highX = fmax(frame.highX, localX);
    }
    frame.stepY = frame.binY / frame.gridY;
    frame.stepX = frame.binX / frame.gridX;
    frame.mostY = samplesBetween(frame.lowY, frame.highY, frame.stepY, frame.gridY);
    frame.mostX = samplesBetween(frame.lowX, frame.highX, frame.stepX, frame.gridX);
}

// box: image and coordinates, of which a rotated one has six.
__host__ __device__ inline RegionFrame regionFrame(const RegionAlignParams& params, const RegionAlignShape& shape,
                                                   const float* box) {
    const bool rotated = params.boxes == RegionBoxes::kRotated;
    float first[2] = {box[1], box[2]};   // corner or centre, (x, y)
    float second[2] = {box[3], box[4]};  // corner or size
    float sizes[2];
    for (int axis = 0; axis < 2; ++axis) {
        sizes[axis] = rotated ? second[axis] : second[axis] - first[axis];
    }
    RegionFrame frame{};
    const RegionLevel& level = params.levels[regionLevel(sizes[0], sizes[1], params.finestScale, params.levelCount)];
    frame.data = level.data;
    frame.height = static_cast<int32_t>(level.height);
    frame.width = static_cast<int32_t>(level.width);
    const bool exists = box[0] > -1.0F && box[0] < static_cast<float>(shape.batch);
    frame.image = exists ? static_cast<int64_t>(box[0]) : 0;

    const double scale = level.scale;
    double origin[2];
    double size[2];
    float counted[2];  // sizes as the frameworks round them
    bool finite = true;
    for (int axis = 0; axis < 2; ++axis) {
        double low = first[axis];
        double extent = rotated ? static_cast<double>(second[axis])
                                : static_cast<double>(second[axis]) - static_cast<double>(first[axis]);
        if (params.growth > 0.0F) {
            const double ends = params.growthCountsEnds ? 1.0 : 0.0;
            const double grown = (extent + ends) * params.growth - ends;
            low += rotated ? 0.0 : 0.5 * (extent - grown);
            extent = grown;
        }
        origin[axis] = low * scale - params.pixelOffset;
        size[axis] = fmax(extent * scale, static_cast<double>(params.leastSize));
        counted[axis] = fmaxf(static_cast<float>(extent) * level.scale, params.leastSize);
        if (!rotated && !(params.growth > 0.0F)) {
            const float start = first[axis] * level.scale - params.pixelOffset;
            const float end = second[axis] * level.scale - params.pixelOffset;
            counted[axis] = fmaxf(end - start, params.leastSize);
        }
        finite = finite && isNumber(first[axis]) && isNumber(second[axis]) && isNumber(counted[axis]);
    }
    frame.cosine = 1.0;
    if (rotated) {
        const double angle = static_cast<double>(box[5]) * params.angleScale;
        finite = finite && isNumber(box[5]);
        frame.cosine = cos(angle);
        frame.sine = sin(angle);
    }
    frame.originX = origin[0];
    frame.originY = origin[1];
    frame.sizeX = size[0];
    frame.sizeY = size[1];
    frame.binX = size[0] / static_cast<double>(shape.outputWidth);
    frame.binY = size[1] / static_cast<double>(shape.outputHeight);
    frame.startX = rotated ? -0.5 * size[0] : 0.0;
    frame.startY = rotated ? -0.5 * size[1] : 0.0;
    frame.gridX = regionGrid(counted[0], shape.outputWidth, params.samplingRatio);
    frame.gridY = regionGrid(counted[1], shape.outputHeight, params.samplingRatio);
    frame.empty = !finite || !exists || frame.gridX < 1.0 || frame.gridY < 1.0 || level.height == 0 || level.width == 0;
    if (!frame.empty) {
        boundRegion(frame);
    }
    return frame;
}

// A position along one axis of the map: the pixel before it, whether there is one after that, and how far it is from the
// first to the second.
struct RegionPlace {
    int32_t low;  // -1: the position is outside
    bool next;
    float upper;
};

__host__ __device__ inline RegionPlace regionPlace(double position, int32_t size) {
    RegionPlace place{-1, false, 0.0F};
    // False for NaN. The conversion to int has an argument from 0 to 2^31.
    if (position >= -1.0 && position <= static_cast<double>(size)) {
        position = fmax(position, 0.0);
        place.next = position < static_cast<double>(size - 1);
        place.low = place.next ? static_cast<int32_t>(position) : size - 1;
        place.upper = place.next ? static_cast<float>(position - place.low) : 0.0F;
    }
    return place;
}

// One sample: its low corner in the map, the corners beside it and below it, and its fractions. 16 bytes, one load.
struct alignas(16) RegionCell {
    int32_t offset;  // of the low corner; kOutside, or kNone where there is no such sample
    int32_t steps;   // bit 0: there is a pixel to the right; bit 1: there is one below
    float lowerY;
    float lowerX;

    static constexpr int32_t kOutside = -1;
    static constexpr int32_t kNone = -2;
};

__host__ __device__ inline RegionCell regionCell(double y, double x, int32_t height, int32_t width) {
    const RegionPlace row = regionPlace(y, height);
    const RegionPlace column = regionPlace(x, width);
    if (row.low < 0 || column.low < 0) {
        return {RegionCell::kOutside, 0, 0.0F, 0.0F};
    }
    return {row.low * width + column.low, (column.next ? 1 : 0) | (row.next ? 2 : 0), row.upper, column.upper};
}

// Sample number `index` of the mostY * mostX of a bin that can be inside. shiftY and shiftX move the bin, in pixels.
__host__ __device__ inline RegionCell regionSample(const RegionFrame& frame, int64_t binRow, int64_t binColumn,
                                                   int64_t index, double shiftY, double shiftX) {
    const int64_t row = index / frame.mostX;
    const int64_t column = index - row * frame.mostX;
    const double cornerY = frame.startY + static_cast<double>(binRow) * frame.binY + shiftY;
    const double cornerX = frame.startX + static_cast<double>(binColumn) * frame.binX + shiftX;
    const double sampleY =
        firstSample(frame.lowY, frame.highY, cornerY, frame.stepY, frame.gridY, frame.mostY) + static_cast<double>(row);
    const double sampleX = firstSample(frame.lowX, frame.highX, cornerX, frame.stepX, frame.gridX, frame.mostX) +
                           static_cast<double>(column);
    if (sampleY >= frame.gridY || sampleX >= frame.gridX) {
        return {RegionCell::kNone, 0, 0.0F, 0.0F};
    }
    const double localY = cornerY + (sampleY + 0.5) * frame.stepY;
    const double localX = cornerX + (sampleX + 0.5) * frame.stepX;
    return regionCell(frame.originY + localY * frame.cosine - localX * frame.sine,
                      frame.originX + localX * frame.cosine + localY * frame.sine, frame.height, frame.width);
}

}  // namespace trtsmith
