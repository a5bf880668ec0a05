// Non-maximum suppression of images and classes, whatever its boxes are: sizes and shapes of its outputs, faults of its
// inputs. Input 0 is boxes [batch, boxes, numbers], input 1 scores [batch, classes, boxes].
#pragma once

#include <string>

#include "core/dims.hpp"
#include "core/tensor.hpp"
#include "kernels/box_selection.cuh"

namespace trtsmith {

// most: boxes of each class and image.
template <typename D>
SizeBounds<D> selectedBounds(const Shape<D>* in, int32_t most) {
    const Shape<D>& scores = in[1];
    const D all = scores[0] * scores[1] * smaller(scores[2], int64_t{most});
    return {floorDiv(all + 1, 2), all};
}

// selected [count, 3], and count.
template <typename D>
void selectedShapes(const D& count, Shape<D>* out) {
    out[0] = Shape<D>::of(count, constantLike(count, 3));
    out[1] = Shape<D>{};
}

// "" or what is wrong. numbers: of a box.
inline std::string selectionFault(const Tensors& t, int64_t numbers) {
    const Tensor& boxes = t.in[0];
    const Tensor& scores = t.in[1];
    return boxes[2] == numbers && boxes[0] == scores[0] && boxes[1] == scores[2]
               ? ""
               : "boxes must be [batch, boxes, " + std::to_string(numbers) + "] and scores [batch, classes, boxes]";
}

inline BoxSelectionShape selectionShape(const Tensors& t, int32_t most) {
    const Tensor& scores = t.in[1];
    return {.batch = scores[0], .classes = scores[1], .boxes = scores[2], .most = most};
}

}  // namespace trtsmith
