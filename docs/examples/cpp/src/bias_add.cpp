// out[r][c] = x[r][c] + bias[c].
#include "element.h"

extern "C" void bias_add(const T* x, const T* bias, T* out) {
    for (int r = 0; r < ROWS; ++r)
        for (int c = 0; c < COLS; ++c) out[r * COLS + c] = narrow<T>(Acc(x[r * COLS + c]) + Acc(bias[c]));
}
