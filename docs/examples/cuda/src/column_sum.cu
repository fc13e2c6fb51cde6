// out[c] = the sum of column c of ROWS x COLS (the gradient of a bias). A block takes 32 columns; its warps go
// down the rows side by side, each reading whole lines, and meet in shared memory.
#include "element.h"
#include "launch.h"

constexpr int WARPS = THREADS / WARP;

extern "C" __global__ void __launch_bounds__(THREADS) column_sum(const T* __restrict__ x, T* __restrict__ out) {
    __shared__ float partial[WARPS][WARP];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int column = blockIdx.x * WARP + lane;
    float sum = 0.0f;
    if (column < COLS)
        for (int row = warp; row < ROWS; row += WARPS) sum += widen(x[size_t(row) * COLS + column]);
    partial[warp][lane] = sum;
    __syncthreads();
    if (warp != 0 || column >= COLS) return;
#pragma unroll
    for (int other = 1; other < WARPS; ++other) sum += partial[other][lane];
    out[column] = narrow<T>(sum);
}

LAUNCH(ceil_div(COLS, WARP), 1, THREADS)
