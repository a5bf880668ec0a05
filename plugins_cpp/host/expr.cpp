#include "expr.hpp"

#include <algorithm>
#include <limits>

#include "error.hpp"

namespace trtsmith::host {
namespace {

using nvinfer1::DimensionOperation;
using nvinfer1::IDimensionExpr;

const char* name(DimensionOperation op) {
    switch (op) {
        case DimensionOperation::kSUM:
            return "add";
        case DimensionOperation::kPROD:
            return "mul";
        case DimensionOperation::kMAX:
            return "max";
        case DimensionOperation::kMIN:
            return "min";
        case DimensionOperation::kSUB:
            return "sub";
        case DimensionOperation::kEQUAL:
            return "equal";
        case DimensionOperation::kLESS:
            return "less";
        case DimensionOperation::kFLOOR_DIV:
            return "floor_div";
        case DimensionOperation::kCEIL_DIV:
            return "ceil_div";
    }
    throw Failure(TSH_BROKEN, "dimension operation " + std::to_string(static_cast<int32_t>(op)) + " does not exist");
}

int64_t divide(int64_t a, int64_t b, bool up) {
    if (b == 0) {
        throw Failure(TSH_BROKEN, "the shape rule divides " + std::to_string(a) + " by zero");
    }
    if (a == std::numeric_limits<int64_t>::min() && b == -1) {
        throw Failure(TSH_BROKEN, "the shape rule overflows 64 bits in a division");
    }
    const int64_t quotient = a / b;
    const bool exact = a % b == 0;
    const bool negative = (a < 0) != (b < 0);
    if (exact) {
        return quotient;
    }
    return up ? quotient + (negative ? 0 : 1) : quotient - (negative ? 1 : 0);
}

int64_t apply(DimensionOperation op, int64_t a, int64_t b) {
    int64_t result = 0;
    bool overflow = false;
    switch (op) {
        case DimensionOperation::kSUM:
            overflow = __builtin_add_overflow(a, b, &result);
            break;
        case DimensionOperation::kPROD:
            overflow = __builtin_mul_overflow(a, b, &result);
            break;
        case DimensionOperation::kSUB:
            overflow = __builtin_sub_overflow(a, b, &result);
            break;
        case DimensionOperation::kMAX:
            return std::max(a, b);
        case DimensionOperation::kMIN:
            return std::min(a, b);
        case DimensionOperation::kEQUAL:
            return a == b ? 1 : 0;
        case DimensionOperation::kLESS:
            return a < b ? 1 : 0;
        case DimensionOperation::kFLOOR_DIV:
            return divide(a, b, false);
        case DimensionOperation::kCEIL_DIV:
            return divide(a, b, true);
    }
    if (overflow) {
        throw Failure(TSH_BROKEN, std::string("the shape rule overflows 64 bits: ") + name(op) + "(" +
                                      std::to_string(a) + ", " + std::to_string(b) + ")");
    }
    return result;
}

}  // namespace

Expr::Expr(Kind kind) : mKind(kind) { mImpl = this; }

std::unique_ptr<Expr> Expr::constant(int64_t value) {
    std::unique_ptr<Expr> expr(new Expr(Kind::kConstant));
    expr->mValue = value;
    return expr;
}

std::unique_ptr<Expr> Expr::symbol(std::string name, std::optional<int64_t> value) {
    std::unique_ptr<Expr> expr(new Expr(Kind::kSymbol));
    expr->mName = std::move(name);
    expr->mValue = value;
    return expr;
}

std::unique_ptr<Expr> Expr::operation(DimensionOperation op, const Expr& first, const Expr& second) {
    name(op);  // throws where the operation does not exist
    if (first.isConstant() && second.isConstant()) {
        return constant(apply(op, *first.mValue, *second.mValue));
    }
    std::unique_ptr<Expr> expr(new Expr(Kind::kOperation));
    expr->mOp = op;
    expr->mFirst = &first;
    expr->mSecond = &second;
    return expr;
}

std::unique_ptr<Expr> Expr::sizeTensor(int32_t output, const Expr& opt, const Expr& upper) {
    std::unique_ptr<Expr> expr(new Expr(Kind::kSizeTensor));
    expr->mOutput = output;
    expr->mFirst = &opt;
    expr->mSecond = &upper;
    return expr;
}

bool Expr::dependsOnSizeTensor() const {
    return mKind == Kind::kSizeTensor ||
           (mKind == Kind::kOperation && (mFirst->dependsOnSizeTensor() || mSecond->dependsOnSizeTensor()));
}

bool Expr::isConstant() const { return mKind == Kind::kConstant; }

int64_t Expr::getConstantValue() const { return isConstant() ? *mValue : std::numeric_limits<int64_t>::min(); }

bool Expr::isSizeTensor() const { return mKind == Kind::kSizeTensor; }

int32_t Expr::sizeOutput() const noexcept { return mOutput; }

std::string Expr::text() const {
    switch (mKind) {
        case Kind::kConstant:
            return std::to_string(*mValue);
        case Kind::kSymbol:
            return mName;
        case Kind::kOperation:
            return std::string(name(mOp)) + "(" + mFirst->text() + ", " + mSecond->text() + ")";
        case Kind::kSizeTensor:
            return "size_tensor(output " + std::to_string(mOutput) + ", opt " + mFirst->text() + ", upper " +
                   mSecond->text() + ")";
    }
    return {};
}

std::optional<int64_t> Expr::evaluate() const {
    if (mKind == Kind::kConstant || mKind == Kind::kSymbol) {
        return mValue;
    }
    const std::optional<int64_t> second = mSecond->evaluate();
    if (mKind == Kind::kSizeTensor) {
        return second;
    }
    const std::optional<int64_t> first = mFirst->evaluate();
    if (!first || !second) {
        return std::nullopt;
    }
    return apply(mOp, *first, *second);
}

ExprBuilder::ExprBuilder() { mImpl = this; }

const IDimensionExpr* ExprBuilder::constant(int64_t value) { return keep(Expr::constant(value)); }

const IDimensionExpr* ExprBuilder::operation(DimensionOperation op, const IDimensionExpr& first,
                                             const IDimensionExpr& second) {
    const Expr* const a = find(&first);
    const Expr* const b = find(&second);
    if (!a || !b) {
        return fail("the shape rule computes with an expression that this builder never made");
    }
    try {
        return keep(Expr::operation(op, *a, *b));
    } catch (const Failure& failure) {
        return fail(failure.what());
    }
}

const IDimensionExpr* ExprBuilder::declareSizeTensor(int32_t outputIndex, const IDimensionExpr& opt,
                                                     const IDimensionExpr& upper) {
    const Expr* const a = find(&opt);
    const Expr* const b = find(&upper);
    if (!a || !b) {
        return fail("declareSizeTensor was given an expression that this builder never made");
    }
    const std::string where = "the size tensor of output " + std::to_string(outputIndex);
    if (a->dependsOnSizeTensor()) {
        return fail(where + " is tuned for a value that depends on a size tensor");
    }
    try {
        const std::optional<int64_t> typical = a->evaluate();
        const std::optional<int64_t> most = b->evaluate();
        if (typical && most && (*typical < 0 || *typical > *most)) {
            return fail(where + " is tuned for " + std::to_string(*typical) + " and is at most " +
                        std::to_string(*most));
        }
    } catch (const Failure& failure) {
        return fail(failure.what());
    }
    return keep(Expr::sizeTensor(outputIndex, *a, *b));
}

const IDimensionExpr* ExprBuilder::symbol(std::string name, std::optional<int64_t> value) {
    return keep(Expr::symbol(std::move(name), value));
}

const Expr* ExprBuilder::find(const IDimensionExpr* expr) const {
    return mKnown.count(expr) ? static_cast<const Expr*>(expr) : nullptr;
}

void ExprBuilder::check() const {
    if (!mFailure.empty()) {
        throw Failure(TSH_BROKEN, mFailure);
    }
}

const IDimensionExpr* ExprBuilder::keep(std::unique_ptr<Expr> expr) {
    mOwned.push_back(std::move(expr));
    mKnown.insert(mOwned.back().get());
    return mOwned.back().get();
}

const IDimensionExpr* ExprBuilder::fail(const std::string& text) {
    if (mFailure.empty()) {
        mFailure = text;
    }
    return keep(Expr::constant(0));  // the plugin goes on; check() tells afterwards
}

}  // namespace trtsmith::host
