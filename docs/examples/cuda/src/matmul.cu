// out[M][N] = a[M][K] * b[K][N] in float, any shape. A block makes a TILE x TILE piece of out from strips of a and b
// that are DEPTH deep in shared memory; a thread makes SIDE x SIDE of it in registers.
#include "element.h"
#include "launch.h"

constexpr int TILE = 64, DEPTH = 16, SIDE = 4;
constexpr int ACROSS = TILE / SIDE;
static_assert(THREADS == ACROSS * ACROSS, "a thread makes SIDE x SIDE of a TILE x TILE piece");

extern "C" __global__ void __launch_bounds__(THREADS)
matmul(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ out) {
    // a lies transposed, so that the inner loop reads both along rows; the padding keeps 16-byte alignment.
    __shared__ __align__(16) float left[DEPTH][TILE + 4], right[DEPTH][TILE];
    const int row0 = blockIdx.y * TILE, column0 = blockIdx.x * TILE;
    const int y = threadIdx.x / ACROSS * SIDE, x = threadIdx.x % ACROSS * SIDE;
    float sum[SIDE][SIDE] = {};

    for (int k0 = 0; k0 < K; k0 += DEPTH) {
#pragma unroll
        for (int i = threadIdx.x; i < TILE * DEPTH; i += THREADS) {
            const int row = row0 + i / DEPTH, k = k0 + i % DEPTH;
            left[i % DEPTH][i / DEPTH] = row < M && k < K ? widen(a[size_t(row) * K + k]) : 0.0f;
        }
#pragma unroll
        for (int i = threadIdx.x; i < DEPTH * TILE; i += THREADS) {
            const int k = k0 + i / TILE, column = column0 + i % TILE;
            right[i / TILE][i % TILE] = k < K && column < N ? widen(b[size_t(k) * N + column]) : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            float u[SIDE], v[SIDE];
#pragma unroll
            for (int i = 0; i < SIDE; ++i) u[i] = left[k][y + i], v[i] = right[k][x + i];
#pragma unroll
            for (int i = 0; i < SIDE; ++i)
#pragma unroll
                for (int j = 0; j < SIDE; ++j) sum[i][j] = fmaf(u[i], v[j], sum[i][j]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < SIDE; ++i)
#pragma unroll
        for (int j = 0; j < SIDE; ++j)
            if (row0 + y + i < M && column0 + x + j < N)
                out[size_t(row0 + y + i) * N + column0 + x + j] = narrow<T>(sum[i][j]);
}

LAUNCH(ceil_div(N, TILE), ceil_div(M, TILE), THREADS)
