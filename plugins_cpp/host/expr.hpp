// Dimension expressions as TensorRT hands them to plugins: constants, unknown dimensions and operations on them.
#pragma once

#include <NvInferRuntime.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

namespace trtsmith::host {

// An immutable expression. The public interface class calls through its protected mImpl, which points back here.
class Expr final : public nvinfer1::IDimensionExpr, public nvinfer1::apiv::VDimensionExpr {
public:
    enum class Kind { kConstant, kSymbol, kOperation, kSizeTensor };

    static std::unique_ptr<Expr> constant(int64_t value);
    // value: what the symbol stands for, where the caller knows it and the plugin must not.
    static std::unique_ptr<Expr> symbol(std::string name, std::optional<int64_t> value);
    static std::unique_ptr<Expr> operation(nvinfer1::DimensionOperation op, const Expr& first, const Expr& second);
    static std::unique_ptr<Expr> sizeTensor(int32_t output, const Expr& opt, const Expr& upper);

    bool isConstant() const override;
    int64_t getConstantValue() const override;
    bool isSizeTensor() const override;

    int32_t sizeOutput() const noexcept;  // -1 unless a size tensor
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
    const Expr* mFirst{nullptr};
    const Expr* mSecond{nullptr};
};

// Makes and owns expressions. A failure inside a call (division by zero, overflow, a foreign expression) is kept and
// thrown by check(), because plugins call the builder from noexcept functions.
class ExprBuilder final : public nvinfer1::IExprBuilder, public nvinfer1::apiv::VExprBuilder {
public:
    ExprBuilder();

    const nvinfer1::IDimensionExpr* constant(int64_t value) override;
    const nvinfer1::IDimensionExpr* operation(nvinfer1::DimensionOperation op, const nvinfer1::IDimensionExpr& first,
                                              const nvinfer1::IDimensionExpr& second) override;
    const nvinfer1::IDimensionExpr* declareSizeTensor(int32_t outputIndex, const nvinfer1::IDimensionExpr& opt,
                                                      const nvinfer1::IDimensionExpr& upper) override;

    const nvinfer1::IDimensionExpr* symbol(std::string name, std::optional<int64_t> value);
    // The expression behind a pointer that a plugin gave back; null if this builder never made it.
    const Expr* find(const nvinfer1::IDimensionExpr* expr) const;
    void check() const;

private:
    const nvinfer1::IDimensionExpr* keep(std::unique_ptr<Expr> expr);
    const nvinfer1::IDimensionExpr* fail(const std::string& text);

    std::vector<std::unique_ptr<Expr>> mOwned;
    std::unordered_set<const nvinfer1::IDimensionExpr*> mKnown;
    std::string mFailure;
};

}  // namespace trtsmith::host
