// RMSNorm over the last axis of ROWS x COLS: x / sqrt(mean(x * x) + EPS) * gamma.
#include <cmath>

#include "element.h"

extern "C" void rms_norm(const T* x, const T* gamma, T* out) {
    for (int r = 0; r < ROWS; ++r, x += COLS, out += COLS) {
        Acc square = 0;
        for (int c = 0; c < COLS; ++c) square += Acc(x[c]) * Acc(x[c]);
        const Acc scale = 1 / std::sqrt(square / COLS + Acc(EPS));
        for (int c = 0; c < COLS; ++c) out[c] = narrow<T>(Acc(x[c]) * scale * Acc(gamma[c]));
    }
}
