// out[r] = the column of the largest value of row r, the first of equals; a block a row.
#include "row.h"

extern "C" __global__ void __launch_bounds__(THREADS)
argmax(const T* __restrict__ x, element::int32* __restrict__ out) {
    Row row(x + size_t(blockIdx.x) * COLS);
    ArgMax::Value best = ArgMax::none();
    row.each([&](float v, int column) { best = ArgMax::join(best, {v, column}); });
    best = block_reduce<ArgMax>(best);
    if (threadIdx.x == 0) out[blockIdx.x] = best.index;
}

LAUNCH(ROWS, 1, THREADS)
