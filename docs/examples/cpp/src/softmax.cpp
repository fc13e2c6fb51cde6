// Softmax over the last axis of ROWS x COLS; the row's maximum is taken out first, so nothing overflows.
#include <cmath>

#include "element.h"

extern "C" void softmax(const T* x, T* out) {
    for (int r = 0; r < ROWS; ++r, x += COLS, out += COLS) {
        Acc peak = Acc(x[0]), total = 0, row[COLS];
        for (int c = 1; c < COLS; ++c) peak = std::fmax(peak, Acc(x[c]));
        for (int c = 0; c < COLS; ++c) total += row[c] = std::exp(Acc(x[c]) - peak);
        for (int c = 0; c < COLS; ++c) out[c] = narrow<T>(row[c] / total);
    }
}
