// Dimension expressions as TensorRT hands them to plugins: constants, unknown dimensions and operations on them.
#pragma once

#include <NvInferRuntime.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

namespace trtsmith::host
{

// An immutable expression. The public interface class calls through its protected mImpl, which points back here.
class Expr final : public nvinfer1::IDimensionExpr, public nvinfer1::apiv::VDimensionExpr
{
public:
    enum class Kind
    {
        kCONSTANT,
        kSYMBOL,
        kOPERATION,
        kSIZE_TENSOR
    };

    static std::unique_ptr<Expr> constant(int64_t value);
    // value: what the symbol stands for, where the caller knows it and the plugin must not.
    static std::unique_ptr<Expr> symbol(std::string name, std::optional<int64_t> value);
    static std::unique_ptr<Expr> operation(nvinfer1::DimensionOperation op, Expr const& first, Expr const& second);
    static std::unique_ptr<Expr> sizeTensor(int32_t output, Expr const& opt, Expr const& upper);

    bool isConstant() const override;
    int64_t getConstantValue() const override;
    bool isSizeTensor() const override;

    int32_t sizeOutput() const noexcept; // -1 unless a size tensor
    bool dependsOnSizeTensor() const;
    std::string text() const;
    // The value with all symbols put in; for a size tensor its upper bound. Throws Failure where the arithmetic fails.
    std::optional<int64_t> evaluate() const;

private:
    explicit Expr(Kind kind);

    Kind mKind;
    std::optional<int64_t> mValue;
    std::string mName;
    nvinfer1::DimensionOperation mOp{nvinfer1::DimensionOperation::kSUM};
    int32_t mOutput{-1};
    Expr const* mFirst{nullptr};
    Expr const* mSecond{nullptr};
};

// Makes and owns expressions. A failure inside a call (division by zero, overflow, a foreign expression) is kept and
// thrown by check(), because plugins call the builder from noexcept functions.
class ExprBuilder final : public nvinfer1::IExprBuilder, public nvinfer1::apiv::VExprBuilder
{
public:
    ExprBuilder();

    nvinfer1::IDimensionExpr const* constant(int64_t value) override;
    nvinfer1::IDimensionExpr const* operation(nvinfer1::DimensionOperation op, nvinfer1::IDimensionExpr const& first,
        nvinfer1::IDimensionExpr const& second) override;
    nvinfer1::IDimensionExpr const* declareSizeTensor(
        int32_t outputIndex, nvinfer1::IDimensionExpr const& opt, nvinfer1::IDimensionExpr const& upper) override;

    nvinfer1::IDimensionExpr const* symbol(std::string name, std::optional<int64_t> value);
    // The expression behind a pointer that a plugin gave back; null if this builder never made it.
    Expr const* find(nvinfer1::IDimensionExpr const* expr) const;
    void check() const;

private:
    nvinfer1::IDimensionExpr const* keep(std::unique_ptr<Expr> expr);
    nvinfer1::IDimensionExpr const* fail(std::string const& text);

    std::vector<std::unique_ptr<Expr>> mOwned;
    std::unordered_set<nvinfer1::IDimensionExpr const*> mKnown;
    std::string mFailure;
};

} // namespace trtsmith::host
