// out[M][N] = EPILOGUE(a[M][K] * b[K][N]) on tensor cores, in float16 or bfloat16 with float sums. Four warps make a
// 64 x 64 piece of out, 32 x 32 each; while they work on one strip of a and b, the next is on its way.
#include "async_copy.h"
#include "element.h"
#include "launch.h"
#include "pack.h"
#include "scalar.h"
#include "tensor_core.h"

#ifndef EPILOGUE
#define EPILOGUE identity
#endif

constexpr int TILE = 64, DEPTH = 32, OF_WARP = 32;
constexpr int PAD = 8;  // 16 bytes a row, so that the eight rows of an ldmatrix lie in different banks
constexpr int CHUNK = 16 / sizeof(T);
static_assert(THREADS == 4 * WARP, "four warps share the piece");
static_assert(M % TILE == 0 && N % TILE == 0 && K % DEPTH == 0, "M and N in steps of 64, K in steps of 32");

using LeftStrip = T[TILE][DEPTH + PAD];
using RightStrip = T[DEPTH][TILE + PAD];

__device__ void fetch(LeftStrip& left, RightStrip& right, const T* a, const T* b, int k0) {
#pragma unroll
    for (int i = threadIdx.x * CHUNK; i < TILE * DEPTH; i += THREADS * CHUNK) {
        copy_async_16(&left[i / DEPTH][i % DEPTH], a + size_t(i / DEPTH) * K + k0 + i % DEPTH);
        copy_async_16(&right[i / TILE][i % TILE], b + size_t(k0 + i / TILE) * N + i % TILE);
    }
    copy_async_commit();
}

extern "C" __global__ void __launch_bounds__(THREADS)
matmul(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ out) {
    using namespace tensor_core;
    __shared__ __align__(16) LeftStrip left[2];
    __shared__ __align__(16) RightStrip right[2];
    const int row0 = blockIdx.y * TILE, column0 = blockIdx.x * TILE;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int y = warp / 2 * OF_WARP, x = warp % 2 * OF_WARP;
    a += size_t(row0) * K;
    b += column0;
    C sum[OF_WARP / 16][OF_WARP / 8] = {};

    fetch(left[0], right[0], a, b, 0);
    for (int k0 = 0, now = 0; k0 < K; k0 += DEPTH, now ^= 1) {
        if (k0 + DEPTH < K) {
            fetch(left[now ^ 1], right[now ^ 1], a, b, k0 + DEPTH);
            copy_async_wait<1>();
        } else {
            copy_async_wait<0>();
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; k += 16) {
            A of_rows[OF_WARP / 16];
            B of_columns[OF_WARP / 8];
#pragma unroll
            for (int i = 0; i < OF_WARP / 16; ++i)
                load_tiles(of_rows[i].part, &left[now][y + i * 16 + lane % 16][k + lane / 16 * 8]);
#pragma unroll
            for (int j = 0; j < OF_WARP / 8; j += 2) {
                unsigned part[4];
                load_tiles_transposed(part, &right[now][k + lane % 16][x + j * 8 + lane / 16 * 8]);
                of_columns[j] = {part[0], part[1]};
                of_columns[j + 1] = {part[2], part[3]};
            }
#pragma unroll
            for (int i = 0; i < OF_WARP / 16; ++i)
#pragma unroll
                for (int j = 0; j < OF_WARP / 8; ++j) multiply_add(sum[i][j], of_rows[i], of_columns[j], T());
        }
        __syncthreads();  // the strip may be overwritten
    }
#pragma unroll
    for (int i = 0; i < OF_WARP / 16; ++i)
#pragma unroll
        for (int j = 0; j < OF_WARP / 8; ++j)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = row0 + y + i * 16 + half * 8 + lane / 4;
                const int column = column0 + x + j * 8 + lane % 4 * 2;
                const float* pair = sum[i][j].at + half * 2;
                store_pack<2>(out + size_t(row) * N + column, 0,
                              {narrow<T>(scalar::EPILOGUE(pair[0])), narrow<T>(scalar::EPILOGUE(pair[1]))});
            }
}

LAUNCH(N / TILE, M / TILE, THREADS)
