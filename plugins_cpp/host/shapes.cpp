#include "shapes.hpp"

#include "error.hpp"

namespace trtsmith::host {
namespace {

constexpr int32_t kUnsetRank = -12345;

}  // namespace

std::vector<nvinfer1::DimsExprs> inputExpressions(ExprBuilder& builder, const ShapeQuery& query) {
    std::vector<nvinfer1::DimsExprs> result(static_cast<size_t>(query.inputCount));
    for (int32_t i = 0; i < query.inputCount; ++i) {
        const tsh_dims& dims = query.inputs[i];
        require(dims.n >= 0 && dims.n <= TSH_MAX_DIMS, "an input shape needs 0 to 8 dimensions");
        result[i] = unsetShape();
        result[i].nbDims = dims.n;
        for (int32_t j = 0; j < dims.n; ++j) {
            const bool known = dims.d[j] >= 0;
            const bool symbolic = !known || (query.symbolic && (query.symbolic[i] >> j & 1U));
            result[i].d[j] = symbolic ? builder.symbol("i" + std::to_string(i) + ".d" + std::to_string(j),
                                                       known ? std::optional<int64_t>(dims.d[j]) : std::nullopt)
                                      : builder.constant(dims.d[j]);
        }
    }
    return result;
}

std::vector<nvinfer1::DimsExprs> shapeInputExpressions(ExprBuilder& builder, const ShapeQuery& query) {
    std::vector<nvinfer1::DimsExprs> result(static_cast<size_t>(query.shapeInputCount));
    for (int32_t i = 0; i < query.shapeInputCount; ++i) {
        const tsh_dims& values = query.shapeInputs[i];
        require(values.n >= 0 && values.n <= TSH_MAX_DIMS, "a shape input needs 0 to 8 values");
        result[i] = unsetShape();
        result[i].nbDims = values.n;
        for (int32_t j = 0; j < values.n; ++j) {
            result[i].d[j] = values.d[j] >= 0 ? builder.constant(values.d[j])
                                              : builder.symbol("s" + std::to_string(i) + "[" + std::to_string(j) + "]",
                                                               std::nullopt);
        }
    }
    return result;
}

nvinfer1::DimsExprs unsetShape() {
    nvinfer1::DimsExprs shape{};
    shape.nbDims = kUnsetRank;
    return shape;
}

void requireDimension(int64_t value, int32_t dimension, int32_t output) {
    if (value < 0) {
        throw Failure(TSH_BROKEN, "the shape rule makes dimension " + std::to_string(dimension) + " of output " +
                                      std::to_string(output) + " negative: " + std::to_string(value));
    }
}

std::vector<DimAnswer> readShape(const ExprBuilder& builder, const nvinfer1::DimsExprs& shape, int32_t output) {
    const std::string where = "output " + std::to_string(output);
    if (shape.nbDims == kUnsetRank) {
        throw Failure(TSH_BROKEN, "the shape rule never set the shape of " + where);
    }
    if (shape.nbDims < 0 || shape.nbDims > TSH_MAX_DIMS) {
        throw Failure(TSH_BROKEN, "the shape rule gave " + where + " " + std::to_string(shape.nbDims) + " dimensions");
    }
    std::vector<DimAnswer> answer;
    for (int32_t j = 0; j < shape.nbDims; ++j) {
        const Expr* const expr = builder.find(shape.d[j]);
        if (!expr) {
            throw Failure(TSH_BROKEN, "the shape rule left dimension " + std::to_string(j) + " of " + where +
                                          " unset: it is no expression of the builder");
        }
        const std::optional<int64_t> evaluated = expr->evaluate();
        if (evaluated) {
            requireDimension(*evaluated, j, output);
        }
        answer.push_back({expr->isConstant() ? expr->getConstantValue() : -1, evaluated.value_or(-1),
                          expr->sizeOutput(), expr->text()});
    }
    return answer;
}

void requireSizeOutputs(const ShapeAnswer& outputs) {
    for (const auto& output : outputs) {
        for (const DimAnswer& dim : output) {
            const int32_t holder = dim.sizeOutput;
            if (holder >= 0 && (holder >= static_cast<int32_t>(outputs.size()) || !outputs[holder].empty())) {
                throw Failure(TSH_BROKEN, "the shape rule declares output " + std::to_string(holder) +
                                              " a size tensor, and it is no output without dimensions");
            }
        }
    }
}

}  // namespace trtsmith::host
