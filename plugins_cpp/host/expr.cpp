#include "expr.hpp"

#include "error.hpp"

#include <algorithm>
#include <limits>

namespace trtsmith::host
{
namespace
{

using nvinfer1::DimensionOperation;
using nvinfer1::IDimensionExpr;

char const* name(DimensionOperation op)
{
    switch (op)
    {
    case DimensionOperation::kSUM: return "add";
    case DimensionOperation::kPROD: return "mul";
    case DimensionOperation::kMAX: return "max";
    case DimensionOperation::kMIN: return "min";
    case DimensionOperation::kSUB: return "sub";
    case DimensionOperation::kEQUAL: return "equal";
    case DimensionOperation::kLESS: return "less";
    case DimensionOperation::kFLOOR_DIV: return "floor_div";
    case DimensionOperation::kCEIL_DIV: return "ceil_div";
    }
    throw Failure(TSH_BROKEN, "dimension operation " + std::to_string(static_cast<int32_t>(op)) + " does not exist");
}

int64_t divide(int64_t a, int64_t b, bool up)
{
    if (b == 0)
    {
        throw Failure(TSH_BROKEN, "the shape rule divides " + std::to_string(a) + " by zero");
    }
    if (a == std::numeric_limits<int64_t>::min() && b == -1)
    {
        throw Failure(TSH_BROKEN, "the shape rule overflows 64 bits in a division");
    }
    int64_t const quotient = a / b;
    bool const exact = a % b == 0;
    bool const negative = (a < 0) != (b < 0);
    if (exact)
    {
        return quotient;
    }
    return up ? quotient + (negative ? 0 : 1) : quotient - (negative ? 1 : 0);
}

int64_t apply(DimensionOperation op, int64_t a, int64_t b)
{
    int64_t result = 0;
    bool overflow = false;
    switch (op)
    {
    case DimensionOperation::kSUM: overflow = __builtin_add_overflow(a, b, &result); break;
    case DimensionOperation::kPROD: overflow = __builtin_mul_overflow(a, b, &result); break;
    case DimensionOperation::kSUB: overflow = __builtin_sub_overflow(a, b, &result); break;
    case DimensionOperation::kMAX: return std::max(a, b);
    case DimensionOperation::kMIN: return std::min(a, b);
    case DimensionOperation::kEQUAL: return a == b ? 1 : 0;
    case DimensionOperation::kLESS: return a < b ? 1 : 0;
    case DimensionOperation::kFLOOR_DIV: return divide(a, b, false);
    case DimensionOperation::kCEIL_DIV: return divide(a, b, true);
    }
    if (overflow)
    {
        throw Failure(TSH_BROKEN,
            std::string("the shape rule overflows 64 bits: ") + name(op) + "(" + std::to_string(a) + ", "
                + std::to_string(b) + ")");
    }
    return result;
}

} // namespace

Expr::Expr(Kind kind)
    : mKind(kind)
{
    mImpl = this;
}

std::unique_ptr<Expr> Expr::constant(int64_t value)
{
    std::unique_ptr<Expr> expr(new Expr(Kind::kCONSTANT));
    expr->mValue = value;
    return expr;
}

std::unique_ptr<Expr> Expr::symbol(std::string name, std::optional<int64_t> value)
{
    std::unique_ptr<Expr> expr(new Expr(Kind::kSYMBOL));
    expr->mName = std::move(name);
    expr->mValue = value;
    return expr;
}

std::unique_ptr<Expr> Expr::operation(DimensionOperation op, Expr const& first, Expr const& second)
{
    name(op); // throws where the operation does not exist
    if (first.isConstant() && second.isConstant())
    {
        return constant(apply(op, *first.mValue, *second.mValue));
    }
    std::unique_ptr<Expr> expr(new Expr(Kind::kOPERATION));
    expr->mOp = op;
    expr->mFirst = &first;
    expr->mSecond = &second;
    return expr;
}

std::unique_ptr<Expr> Expr::sizeTensor(int32_t output, Expr const& opt, Expr const& upper)
{
    std::unique_ptr<Expr> expr(new Expr(Kind::kSIZE_TENSOR));
    expr->mOutput = output;
    expr->mFirst = &opt;
    expr->mSecond = &upper;
    return expr;
}

bool Expr::dependsOnSizeTensor() const
{
    return mKind == Kind::kSIZE_TENSOR
        || (mKind == Kind::kOPERATION && (mFirst->dependsOnSizeTensor() || mSecond->dependsOnSizeTensor()));
}

bool Expr::isConstant() const
{
    return mKind == Kind::kCONSTANT;
}

int64_t Expr::getConstantValue() const
{
    return isConstant() ? *mValue : std::numeric_limits<int64_t>::min();
}

bool Expr::isSizeTensor() const
{
    return mKind == Kind::kSIZE_TENSOR;
}

int32_t Expr::sizeOutput() const noexcept
{
    return mOutput;
}

std::string Expr::text() const
{
    switch (mKind)
    {
    case Kind::kCONSTANT: return std::to_string(*mValue);
    case Kind::kSYMBOL: return mName;
    case Kind::kOPERATION: return std::string(name(mOp)) + "(" + mFirst->text() + ", " + mSecond->text() + ")";
    case Kind::kSIZE_TENSOR:
        return "size_tensor(output " + std::to_string(mOutput) + ", opt " + mFirst->text() + ", upper "
            + mSecond->text() + ")";
    }
    return {};
}

std::optional<int64_t> Expr::evaluate() const
{
    if (mKind == Kind::kCONSTANT || mKind == Kind::kSYMBOL)
    {
        return mValue;
    }
    std::optional<int64_t> const second = mSecond->evaluate();
    if (mKind == Kind::kSIZE_TENSOR)
    {
        return second;
    }
    std::optional<int64_t> const first = mFirst->evaluate();
    if (!first || !second)
    {
        return std::nullopt;
    }
    return apply(mOp, *first, *second);
}

ExprBuilder::ExprBuilder()
{
    mImpl = this;
}

IDimensionExpr const* ExprBuilder::constant(int64_t value)
{
    return keep(Expr::constant(value));
}

IDimensionExpr const* ExprBuilder::operation(
    DimensionOperation op, IDimensionExpr const& first, IDimensionExpr const& second)
{
    Expr const* const a = find(&first);
    Expr const* const b = find(&second);
    if (!a || !b)
    {
        return fail("the shape rule computes with an expression that this builder never made");
    }
    try
    {
        return keep(Expr::operation(op, *a, *b));
    }
    catch (Failure const& failure)
    {
        return fail(failure.what());
    }
}

IDimensionExpr const* ExprBuilder::declareSizeTensor(
    int32_t outputIndex, IDimensionExpr const& opt, IDimensionExpr const& upper)
{
    Expr const* const a = find(&opt);
    Expr const* const b = find(&upper);
    if (!a || !b)
    {
        return fail("declareSizeTensor was given an expression that this builder never made");
    }
    std::string const where = "the size tensor of output " + std::to_string(outputIndex);
    if (a->dependsOnSizeTensor())
    {
        return fail(where + " is tuned for a value that depends on a size tensor");
    }
    try
    {
        std::optional<int64_t> const typical = a->evaluate();
        std::optional<int64_t> const most = b->evaluate();
        if (typical && most && (*typical < 0 || *typical > *most))
        {
            return fail(where + " is tuned for " + std::to_string(*typical) + " and is at most "
                + std::to_string(*most));
        }
    }
    catch (Failure const& failure)
    {
        return fail(failure.what());
    }
    return keep(Expr::sizeTensor(outputIndex, *a, *b));
}

IDimensionExpr const* ExprBuilder::symbol(std::string name, std::optional<int64_t> value)
{
    return keep(Expr::symbol(std::move(name), value));
}

Expr const* ExprBuilder::find(IDimensionExpr const* expr) const
{
    return mKnown.count(expr) ? static_cast<Expr const*>(expr) : nullptr;
}

void ExprBuilder::check() const
{
    if (!mFailure.empty())
    {
        throw Failure(TSH_BROKEN, mFailure);
    }
}

IDimensionExpr const* ExprBuilder::keep(std::unique_ptr<Expr> expr)
{
    mOwned.push_back(std::move(expr));
    mKnown.insert(mOwned.back().get());
    return mOwned.back().get();
}

IDimensionExpr const* ExprBuilder::fail(std::string const& text)
{
    if (mFailure.empty())
    {
        mFailure = text;
    }
    return keep(Expr::constant(0)); // the plugin goes on; check() tells afterwards
}

} // namespace trtsmith::host
