// What a creator takes of fields, and the V2 buffer of what is read back: both hold values to the fields' ranges. Prints what
// is wrong; exits 1 if anything is.
#include "core/fields.hpp"

#include <cmath>

#include "core/buffer.hpp"
#include "core/manifest.hpp"
#include "expect.hpp"

using namespace trtsmith;
using expecting::expect;

namespace {

struct Params {
    std::array<int32_t, 2> stride;
    int32_t sorted;
    int32_t axis;
    float limit;
};
constexpr std::array<Field<Params>, 4> kFields{
    field<&Params::stride>("stride", atLeast(1)),
    field<&Params::sorted>("sorted", kZeroOrOne),
    field<&Params::axis>("axis"),
    field<&Params::limit>("limit", Range{0, 0.5}),
};
constexpr Params kRight{{1, 2}, 1, -2147483647 - 1, 0.25F};

std::string parsed(Params params) {
    std::array<GivenField, 4> given{};
    for (size_t i = 0; i < given.size(); ++i) {
        const Field<Params>& f = kFields[i];
        given[i] = {f.name, f.kind, true, f.length, f.data(params)};
    }
    Params result{};
    return parseFields(kFields, given.data(), 4, result);
}

std::string readBack(const Params& params) {
    std::array<char, bufferSize(kFields)> buffer{};
    writeBuffer(kFields, params, buffer.data());
    Params result{};
    return readBuffer(kFields, buffer.data(), buffer.size(), result);
}

template <typename Change>
void refuses(const std::string& words, Change&& change) {
    Params params = kRight;
    change(params);
    expect(parsed(params) == words, "a creator says: " + parsed(params));
    expect(readBack(params) == words, "what reads a buffer says: " + readBack(params));
}

}  // namespace

int main() {
    refuses("", [](Params&) {});
    refuses("", [](Params& p) { p.stride[1] = 2147483647; });
    refuses("", [](Params& p) { p.sorted = 0; });
    refuses("", [](Params& p) { p.limit = 0.5F; });
    refuses("field 'stride' is 0; expected at least 1", [](Params& p) { p.stride[0] = 0; });
    refuses("field 'stride' is -2147483648; expected at least 1", [](Params& p) { p.stride[1] = -2147483647 - 1; });
    refuses("field 'sorted' is -1; expected 0 to 1", [](Params& p) { p.sorted = -1; });
    refuses("field 'sorted' is 2; expected 0 to 1", [](Params& p) { p.sorted = 2; });
    refuses("field 'limit' is 0.750000; expected 0 to 0.500000", [](Params& p) { p.limit = 0.75F; });
    refuses("field 'limit' is inf; expected 0 to 0.500000", [](Params& p) { p.limit = INFINITY; });
    refuses("field 'limit' is nan; expected 0 to 0.500000", [](Params& p) { p.limit = NAN; });
    expect(detail::limitJson(Range{}.least) == "null" && detail::limitJson(Range{}.most) == "null", "no limits");
    expect(detail::limitJson(kZeroOrOne.most) == "1", "a limit");
    return expecting::exitCode();
}
