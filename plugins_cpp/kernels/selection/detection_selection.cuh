// The detections of every image in a fixed number of rows: the non-maximum suppression plugins of TensorRT. Declaration only:
// needs neither nvcc nor TensorRT.
//
// Method: a candidate is one number of 64 bits, its score from high to low and its place, so that the order is total and all
// results are the same in every run. Where an image has many scores, all blocks count its candidates by the first 16 bits of
// that number and gather the best 4,096. One block for each image sorts them and goes through them in tiles, until as many
// detections are kept as there are rows; only if these do not suffice it looks for the next 4,096 itself.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace trtsmith {

enum class BoxKind {
    kUpright,   // 4 numbers; intersection over union
    kProbIou,   // 5 numbers, the last an angle in radians; TensorRT-YOLO's ProbIoU
    kPolygons,  // 5 numbers, centre, size and angle in radians; intersection over union of polygons
};

struct DetectionSelectionShape {
    int64_t batch;  // below 2^31
    int64_t boxes;  // boxes * classes is below 2^31
    int64_t classes;
    int64_t groups;  // boxes for each place: 1, or `classes`
    int64_t most;    // rows of an image
    int64_t topk;    // candidates of each class, at most; 0 or less: all
};

// Device pointers, row-major, aligned to their element size; they may be null where a tensor is empty. Outputs must overlap
// nothing.
struct DetectionSelectionParams {
    DType type;            // of boxes and scores, float32, float16 or bfloat16
    const void* boxes;     // [batch, boxes, groups, 4 or 5]
    const void* scores;    // [batch, boxes, classes]; a NaN is the score of no candidate
    float scoreThreshold;  // candidates have a score above
    float overlap;         // intersection over union above which two boxes overlap
    bool inclusive;        // equal to a threshold is above it
    bool classAgnostic;    // boxes of different classes overlap, too
    bool centers;          // boxes are [centre, size]; else two opposite corners; not of polygons
    BoxKind kind;          // what boxes are, and how they overlap
    bool pixels;           // sides are larger by 1 than corners are apart
    bool clip;             // coordinates of outputs are limited to 0 and 1
    bool classMajor;       // of equal scores the first is that of the lower class, then box; else box, then class
    int32_t background;    // the class without candidates; any other number: none
    int32_t filler;        // class and index of rows without a detection
    int32_t* number;       // [batch]
    void* outBoxes;        // [batch, most, 4 or 5]
    void* outScores;       // [batch, most]
    int32_t* outClasses;   // [batch, most]
    int32_t* outIndices;   // [batch, most]
};

// Bytes of device memory that detectionSelection needs as `workspace`.
size_t detectionSelectionWorkspace(const DetectionSelectionShape& shape);

// Enqueues on `stream`; `workspace` is aligned to 16 bytes. Returns cudaErrorInvalidValue for a negative or overflowing
// size, a number of groups that is neither, or a null pointer that is needed; otherwise the error of the launches.
cudaError_t detectionSelection(const DetectionSelectionParams& params, const DetectionSelectionShape& shape,
                               void* workspace, cudaStream_t stream);

}  // namespace trtsmith
