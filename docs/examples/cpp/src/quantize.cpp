// out[i] = round(x[i] / SCALE) as int8, ties to even, saturating, over COUNT elements.
#include <cmath>

#include "element.h"

extern "C" void quantize(const T* x, element::int8* out) {
    for (int i = 0; i < COUNT; ++i) {
        // Clamped before the conversion: a float outside int32 has no defined integer value.
        const float scaled = std::fmin(std::fmax(float(Acc(x[i]) / Acc(SCALE)), -128.0f), 127.0f);
        out[i] = element::int8(std::nearbyint(scaled));
    }
}
