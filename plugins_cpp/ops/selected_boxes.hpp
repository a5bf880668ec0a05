// Sizes of non-maximum suppression of images and classes, whatever its boxes are. Input 1 is scores [batch, classes, boxes].
#pragma once

#include "core/tensor.hpp"
#include "kernels/box_selection.cuh"

namespace trtsmith {

// most: boxes of each class and image.
inline BoxSelectionShape selectionShape(const Tensors& t, int32_t most) {
    const Tensor& scores = t.in[1];
    return {.batch = scores[0], .classes = scores[1], .boxes = scores[2], .most = most};
}

}  // namespace trtsmith
