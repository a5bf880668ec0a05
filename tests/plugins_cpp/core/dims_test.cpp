// Dimension algebra on numbers, and on a symbolic type with nothing but the operators that rules may use. Prints what is
// wrong; exits 1 if anything is.
#include "core/dims.hpp"

#include "expect.hpp"

using namespace trtsmith;
using expecting::expect;

namespace {

struct Text {
    std::string words;

    friend Text operator+(const Text& a, int64_t b) { return {"(" + a.words + "+" + std::to_string(b) + ")"}; }
    friend Text operator*(const Text& a, const Text& b) { return {"(" + a.words + "*" + b.words + ")"}; }
    friend Text floorDiv(const Text& a, int64_t b) { return {"(" + a.words + "/" + std::to_string(b) + ")"}; }
    friend Text smaller(const Text& a, const Text& b) { return {"min(" + a.words + "," + b.words + ")"}; }
    friend Text constantLike(const Text&, int64_t value) { return {std::to_string(value)}; }
};

// As operators with sizes that depend on values write it.
template <typename D>
SizeBounds<D> halfOrAll(const Shape<D>& shape, const D& limit) {
    const D most = smaller(product(shape), limit);
    return {floorDiv(most + 1, 2), most};
}

void numbers() {
    expect(product(Shape<int64_t>::of(5)) == 5, "product of one dimension");
    expect(product(Shape<int64_t>::of(5, 1 << 20, 1 << 20)) == int64_t{5} << 40, "a product is 64-bit");
    expect(product(Shape<int64_t>::of(7, 0, 3)) == 0, "product of an empty shape");
    for (const int64_t b : {2, 3, -2, 7}) {
        for (int64_t a = -9; a <= 9; ++a) {
            const int64_t quotient = floorDiv(a, b);
            const int64_t rest = a - quotient * b;
            expect(rest == 0 || (rest > 0) == (b > 0), "the rest has the divisor's sign");
            expect((rest < 0 ? -rest : rest) < (b < 0 ? -b : b), "the rest is below the divisor");
        }
    }
    expect(smaller(int64_t{1} << 40, 3) == 3 && smaller(-1, 3) == -1, "the smaller one");
    expect(constantLike(int64_t{4}, 9) == 9, "a constant");
}

void bounds() {
    const SizeBounds<int64_t> odd = halfOrAll(Shape<int64_t>::of(3, 5), int64_t{100});
    expect(odd.most == 15 && odd.typical == 8, "half of 15, rounded up");
    const SizeBounds<int64_t> none = halfOrAll(Shape<int64_t>::of(3, 0), int64_t{100});
    expect(none.most == 0 && none.typical == 0, "of nothing nothing");
    const SizeBounds<int64_t> limited = halfOrAll(Shape<int64_t>::of(3, 5), int64_t{1});
    expect(limited.most == 1 && limited.typical == 1, "a typical size is no more than the most");

    const SizeBounds<Text> symbolic = halfOrAll(Shape<Text>::of(Text{"a"}, Text{"b"}), Text{"n"});
    expect(symbolic.most.words == "min((a*b),n)", symbolic.most.words);
    expect(symbolic.typical.words == "((min((a*b),n)+1)/2)", symbolic.typical.words);
    expect(constantLike(symbolic.most, 3).words == "3", "a constant of the same kind");
}

}  // namespace

int main() {
    numbers();
    bounds();
    return expecting::exitCode();
}
