// out[r][c] = x[r][0] + … + x[r][c]. A block goes along its row in strips of THREADS columns: a scan inside each
// warp, then over the warps' totals, with what came before carried along.
#include "element.h"
#include "launch.h"

__device__ inline float warp_scan(float value, int lane) {
#pragma unroll
    for (int distance = 1; distance < WARP; distance *= 2) {
        const float before = __shfl_up_sync(~0u, value, distance);
        if (lane >= distance) value += before;
    }
    return value;
}

extern "C" __global__ void __launch_bounds__(THREADS) cumsum(const T* __restrict__ x, T* __restrict__ out) {
    __shared__ float until_warp[WARP];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const size_t start = size_t(blockIdx.x) * COLS;
    float carried = 0.0f;
    for (int first = 0; first < COLS; first += THREADS) {
        const int column = first + threadIdx.x;
        const float value = warp_scan(column < COLS ? widen(x[start + column]) : 0.0f, lane);
        if (lane == WARP - 1) until_warp[warp] = value;
        __syncthreads();
        if (warp == 0) until_warp[lane] = warp_scan(lane < THREADS / WARP ? until_warp[lane] : 0.0f, lane);
        __syncthreads();
        const float before = carried + (warp > 0 ? until_warp[warp - 1] : 0.0f);
        if (column < COLS) out[start + column] = narrow<T>(before + value);
        carried += until_warp[THREADS / WARP - 1];
        __syncthreads();  // the next strip writes until_warp again
    }
}

LAUNCH(ROWS, 1, THREADS)
