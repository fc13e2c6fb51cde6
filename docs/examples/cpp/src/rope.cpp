// Rotary position embedding of LENGTH x DIM: pairs (x[i], x[i + DIM/2]) turn by position / BASE^(2i/DIM).
#include <cmath>

#include "element.h"

extern "C" void rope(const T* x, T* out) {
    constexpr int half = DIM / 2;
    for (int position = 0; position < LENGTH; ++position, x += DIM, out += DIM)
        for (int i = 0; i < half; ++i) {
            const double angle = position / std::pow(double(BASE), 2.0 * i / DIM);
            const Acc cosine = Acc(std::cos(angle)), sine = Acc(std::sin(angle));
            const Acc a = Acc(x[i]), b = Acc(x[i + half]);
            out[i] = narrow<T>(a * cosine - b * sine);
            out[i + half] = narrow<T>(a * sine + b * cosine);
        }
}
