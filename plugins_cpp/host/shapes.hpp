// Symbolic shape questions, which V3 and V2DynamicExt answer in the same words.
#pragma once

#include <vector>

#include "expr.hpp"
#include "plugin.hpp"

namespace trtsmith::host {

// Input dimensions as expressions named "i<input>.d<dimension>" where they are unknown to the plugin.
std::vector<nvinfer1::DimsExprs> inputExpressions(ExprBuilder& builder, const ShapeQuery& query);
// Values of shape inputs as expressions named "s<input>[<element>]" where they are unknown.
std::vector<nvinfer1::DimsExprs> shapeInputExpressions(ExprBuilder& builder, const ShapeQuery& query);

// A shape that no plugin leaves by accident, to be overwritten by the plugin.
nvinfer1::DimsExprs unsetShape();

// Throws Failure for a negative dimension of an output.
void requireDimension(int64_t value, int32_t dimension, int32_t output);

// Reads what the plugin wrote. Throws Failure naming the output and dimension that it left unset.
std::vector<DimAnswer> readShape(const ExprBuilder& builder, const nvinfer1::DimsExprs& shape, int32_t output);

// Throws Failure unless every size tensor is an output without dimensions.
void requireSizeOutputs(const ShapeAnswer& outputs);

}  // namespace trtsmith::host
