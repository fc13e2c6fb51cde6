// How a kernel wants to be launched travels in its module: cuModuleGetGlobal("launch") gives three ints, the
// blocks in x, the blocks in y and the threads of a block. All kernels here take pointers only; shapes are defines.
#pragma once

#define LAUNCH(blocks_x, blocks_y, threads) \
    extern "C" { __constant__ int launch[3] = {blocks_x, blocks_y, threads}; }

#ifndef THREADS
#define THREADS 256
#endif

constexpr int WARP = 32;
static_assert(THREADS % WARP == 0 && THREADS <= 1024, "THREADS must be whole warps, at most 1024 threads");

__host__ __device__ constexpr int ceil_div(int count, int by) { return (count + by - 1) / by; }
