// out[c][r] = x[r][c]. A 32 x 32 tile goes through shared memory, so that both sides are read and written in whole
// lines; the odd row length keeps a column of the tile in 32 different banks.
#include "element.h"
#include "launch.h"

constexpr int TILE = WARP;
constexpr int STEP = THREADS / TILE;

extern "C" __global__ void __launch_bounds__(THREADS) transpose(const T* __restrict__ x, T* __restrict__ out) {
    __shared__ T tile[TILE][TILE + 1];
    const int lane = threadIdx.x % TILE, first = threadIdx.x / TILE;
    const int row0 = blockIdx.y * TILE, column0 = blockIdx.x * TILE;
#pragma unroll
    for (int i = first; i < TILE; i += STEP)
        if (row0 + i < ROWS && column0 + lane < COLS) tile[i][lane] = x[size_t(row0 + i) * COLS + column0 + lane];
    __syncthreads();
#pragma unroll
    for (int i = first; i < TILE; i += STEP)
        if (column0 + i < COLS && row0 + lane < ROWS) out[size_t(column0 + i) * ROWS + row0 + lane] = tile[lane][i];
}

LAUNCH(ceil_div(COLS, TILE), ceil_div(ROWS, TILE), THREADS)
