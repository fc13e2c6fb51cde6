// out[c][r] = x[r][c], in tiles so that both sides are touched a cache line at a time.
#include "element.h"

extern "C" void transpose(const T* x, T* out) {
    for (int r0 = 0; r0 < ROWS; r0 += TILE)
        for (int c0 = 0; c0 < COLS; c0 += TILE)
            for (int r = r0; r < r0 + TILE && r < ROWS; ++r)
                for (int c = c0; c < c0 + TILE && c < COLS; ++c) out[c * ROWS + r] = x[r * COLS + c];
}
