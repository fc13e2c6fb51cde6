// Reduces the middle axis of OUTER x AXIS x INNER with OP: sum, mean or max.
#include "element.h"

namespace reduction {
inline Acc sum(Acc a, Acc b) { return a + b; }
inline Acc mean(Acc a, Acc b) { return a + b; }
inline Acc max(Acc a, Acc b) { return a < b ? b : a; }
constexpr bool divides(Acc (*op)(Acc, Acc)) { return op == mean; }
}  // namespace reduction

extern "C" void reduce(const T* x, T* out) {
    for (int o = 0; o < OUTER; ++o)
        for (int i = 0; i < INNER; ++i) {
            const T* from = x + o * AXIS * INNER + i;
            Acc value = Acc(from[0]);
            for (int a = 1; a < AXIS; ++a) value = reduction::OP(value, Acc(from[a * INNER]));
            out[o * INNER + i] = narrow<T>(reduction::divides(reduction::OP) ? value / AXIS : value);
        }
}
