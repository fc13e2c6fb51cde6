// LayerNorm over the last axis of ROWS x COLS: (x - mean) / sqrt(variance + EPS) * gamma + beta.
#include <cmath>

#include "element.h"

extern "C" void layer_norm(const T* x, const T* gamma, const T* beta, T* out) {
    for (int r = 0; r < ROWS; ++r, x += COLS, out += COLS) {
        Acc mean = 0, variance = 0;
        for (int c = 0; c < COLS; ++c) mean += Acc(x[c]) / COLS;
        for (int c = 0; c < COLS; ++c) variance += (Acc(x[c]) - mean) * (Acc(x[c]) - mean) / COLS;
        const Acc scale = 1 / std::sqrt(variance + Acc(EPS));
        for (int c = 0; c < COLS; ++c)
            out[c] = narrow<T>((Acc(x[c]) - mean) * scale * Acc(gamma[c]) + Acc(beta[c]));
    }
}
