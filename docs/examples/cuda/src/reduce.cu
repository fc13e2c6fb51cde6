// Reduces the last axis of ROWS x COLS with OP: sum, mean or max; a block a row.
#include "row.h"

namespace reduction {
__device__ inline float sum(Row& row) { return row.reduce<Sum>(); }
__device__ inline float mean(Row& row) { return row.reduce<Sum>() / COLS; }
__device__ inline float max(Row& row) { return row.reduce<Max>(); }
}  // namespace reduction

extern "C" __global__ void __launch_bounds__(THREADS) reduce(const T* __restrict__ x, T* __restrict__ out) {
    Row row(x + size_t(blockIdx.x) * COLS);
    const float result = reduction::OP(row);
    if (threadIdx.x == 0) out[blockIdx.x] = narrow<T>(result);
}

LAUNCH(ROWS, 1, THREADS)
