// out = softmax(q k^T / sqrt(DIM)) v for HEADS x LENGTH x DIM in float16 or bfloat16, CAUSAL=1 with each query seeing
// only keys up to its own position. The scores never reach memory: a block takes 64 queries of one head, 16 a warp,
// and goes over the keys in tiles of 64 with a running maximum and sum per query.
#include <math_constants.h>

#include "async_copy.h"
#include "element.h"
#include "pack.h"
#include "reduce.h"
#include "tensor_core.h"

constexpr int TILE = 64;
constexpr int PAD = 8;  // 16 bytes a row, so that the eight rows of an ldmatrix lie in different banks
constexpr int CHUNK = 16 / sizeof(T);
static_assert(THREADS == 4 * WARP, "four warps share the queries");
static_assert(LENGTH % TILE == 0 && DIM % 16 == 0, "LENGTH in steps of 64, DIM in steps of 16");

using Tile = T[TILE][DIM + PAD];

__device__ void fetch(Tile& tile, const T* rows) {
#pragma unroll
    for (int i = threadIdx.x * CHUNK; i < TILE * DIM; i += THREADS * CHUNK)
        copy_async_16(&tile[i / DIM][i % DIM], rows + i);
}

__device__ unsigned two(float low, float high) {
    const Pack<T, 2> pair = {narrow<T>(low), narrow<T>(high)};
    return reinterpret_cast<const unsigned&>(pair);
}

extern "C" __global__ void __launch_bounds__(THREADS) attention(
    const T* __restrict__ q, const T* __restrict__ k, const T* __restrict__ v, T* __restrict__ out) {
    using namespace tensor_core;
    __shared__ __align__(16) Tile keys, values;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int query0 = blockIdx.x * TILE;
    const size_t head = size_t(blockIdx.y) * LENGTH * DIM;

    // The queries pass through the keys' place once and then stay in registers.
    A query[DIM / 16];
    fetch(keys, q + head + size_t(query0) * DIM);
    copy_async_commit();
    copy_async_wait<0>();
    __syncthreads();
#pragma unroll
    for (int d = 0; d < DIM / 16; ++d)
        load_tiles(query[d].part, &keys[warp * 16 + lane % 16][d * 16 + lane / 16 * 8]);
    __syncthreads();

    C sum[DIM / 8] = {};
    float peak[2] = {-CUDART_INF_F, -CUDART_INF_F}, total[2] = {};  // of this lane's two queries
    const float scale = 1.44269504f * rsqrtf(float(DIM));           // exp(x) = exp2(x * log2 e)
    const int end = CAUSAL ? query0 + TILE : LENGTH;

    for (int key0 = 0; key0 < end; key0 += TILE) {
        fetch(keys, k + head + size_t(key0) * DIM);
        fetch(values, v + head + size_t(key0) * DIM);
        copy_async_commit();
        copy_async_wait<0>();
        __syncthreads();

        C score[TILE / 8] = {};
#pragma unroll
        for (int d = 0; d < DIM / 16; ++d)
#pragma unroll
            for (int j = 0; j < TILE / 8; j += 2) {
                unsigned part[4];
                load_tiles(part, &keys[j * 8 + lane / 16 * 8 + lane % 8][d * 16 + lane / 8 % 2 * 8]);
                multiply_add(score[j], query[d], {part[0], part[1]}, T());
                multiply_add(score[j + 1], query[d], {part[2], part[3]}, T());
            }

        float higher[2] = {peak[0], peak[1]};
#pragma unroll
        for (int j = 0; j < TILE / 8; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int key = key0 + j * 8 + lane % 4 * 2 + i % 2;
                const int position = query0 + warp * 16 + i / 2 * 8 + lane / 4;
                if (CAUSAL && key > position) score[j].at[i] = -CUDART_INF_F;
                higher[i / 2] = fmaxf(higher[i / 2], score[j].at[i] * scale);
            }
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            higher[h] = warp_reduce<Max, 4>(higher[h]);  // a query's scores lie in four neighbouring lanes
            const float fade = exp2f(peak[h] - higher[h]);
            peak[h] = higher[h];
            total[h] *= fade;
#pragma unroll
            for (int d = 0; d < DIM / 8; ++d) sum[d].at[h * 2] *= fade, sum[d].at[h * 2 + 1] *= fade;
        }
#pragma unroll
        for (int j = 0; j < TILE / 8; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                score[j].at[i] = exp2f(score[j].at[i] * scale - peak[i / 2]);
                total[i / 2] += score[j].at[i];
            }

        // Two neighbouring 16 x 8 results are laid out as the 16 x 16 operand of the next product.
#pragma unroll
        for (int j = 0; j < TILE / 16; ++j) {
            const C &left = score[j * 2], &right = score[j * 2 + 1];
            const A weight = {two(left.at[0], left.at[1]), two(left.at[2], left.at[3]),
                              two(right.at[0], right.at[1]), two(right.at[2], right.at[3])};
#pragma unroll
            for (int d = 0; d < DIM / 8; d += 2) {
                unsigned part[4];
                load_tiles_transposed(part, &values[j * 16 + lane % 16][d * 8 + lane / 16 * 8]);
                multiply_add(sum[d], weight, {part[0], part[1]}, T());
                multiply_add(sum[d + 1], weight, {part[2], part[3]}, T());
            }
        }
        __syncthreads();  // the tiles may be overwritten
    }

#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const float share = 1.0f / warp_reduce<Sum, 4>(total[h]);
        T* row = out + head + size_t(query0 + warp * 16 + h * 8 + lane / 4) * DIM + lane % 4 * 2;
#pragma unroll
        for (int d = 0; d < DIM / 8; ++d)
            store_pack<2>(row, d * 4, {narrow<T>(sum[d].at[h * 2] * share), narrow<T>(sum[d].at[h * 2 + 1] * share)});
    }
}

LAUNCH(LENGTH / TILE, HEADS, THREADS)
