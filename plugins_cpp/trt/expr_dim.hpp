// A symbolic dimension of TensorRT as a dimension of shape rules.
#pragma once

#include <NvInferRuntime.h>

#include <cstdint>

#include "core/dims.hpp"
#include "trt/guard.hpp"

namespace trtsmith {

// With the operators that shape rules use.
class ExprDim {
public:
    ExprDim() = default;
    ExprDim(nvinfer1::IExprBuilder& builder, const nvinfer1::IDimensionExpr* expr) : mBuilder(&builder), mExpr(expr) {}

    const nvinfer1::IDimensionExpr* expr() const { return mExpr; }

    friend ExprDim operator+(const ExprDim& a, const ExprDim& b) { return a.apply(Operation::kSUM, b); }
    friend ExprDim operator-(const ExprDim& a, const ExprDim& b) { return a.apply(Operation::kSUB, b); }
    friend ExprDim operator*(const ExprDim& a, const ExprDim& b) { return a.apply(Operation::kPROD, b); }
    friend ExprDim floorDiv(const ExprDim& a, const ExprDim& b) { return a.apply(Operation::kFLOOR_DIV, b); }
    friend ExprDim smaller(const ExprDim& a, const ExprDim& b) { return a.apply(Operation::kMIN, b); }
    ExprDim constant(int64_t value) const { return {*mBuilder, mBuilder->constant(value)}; }
    friend ExprDim constantLike(const ExprDim& like, int64_t value) { return like.constant(value); }
    friend ExprDim operator+(const ExprDim& a, int64_t b) { return a + a.constant(b); }
    friend ExprDim operator-(const ExprDim& a, int64_t b) { return a - a.constant(b); }
    friend ExprDim operator*(const ExprDim& a, int64_t b) { return a * a.constant(b); }
    friend ExprDim floorDiv(const ExprDim& a, int64_t b) { return floorDiv(a, a.constant(b)); }
    friend ExprDim smaller(const ExprDim& a, int64_t b) { return smaller(a, a.constant(b)); }

    // The dimension that the plugin writes into its output `index` at run time.
    static ExprDim fromSizeTensor(nvinfer1::IExprBuilder& builder, int32_t index, const SizeBounds<ExprDim>& bounds) {
        const auto* result = builder.declareSizeTensor(index, *bounds.typical.mExpr, *bounds.most.mExpr);
        require(result != nullptr, "TensorRT could not declare a size tensor");
        return {builder, result};
    }

private:
    using Operation = nvinfer1::DimensionOperation;
    ExprDim apply(Operation operation, const ExprDim& other) const {
        const auto* result = mBuilder->operation(operation, *mExpr, *other.mExpr);
        require(result != nullptr, "TensorRT could not build a dimension expression");
        return {*mBuilder, result};
    }
    nvinfer1::IExprBuilder* mBuilder{nullptr};
    const nvinfer1::IDimensionExpr* mExpr{nullptr};
};

}  // namespace trtsmith
