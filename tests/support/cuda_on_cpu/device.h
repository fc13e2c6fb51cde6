// Just enough of CUDA to run the example kernels on the CPU: each thread of a block is a fiber, blocks run one after
// the other, so shared memory is a static. Included before every kernel; beside it lie stand-ins for the headers of
// the CUDA toolkit, and for those of the examples that speak PTX.
#pragma once
#include <math.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ static
#define __launch_bounds__(threads)
#define __align__(bytes) __attribute__((aligned(bytes)))

struct Dim {
    unsigned x, y;
};
extern Dim threadIdx, blockIdx;

// Waits for all threads of the warp or block that have not ended.
void __syncwarp();
void __syncthreads();

// Every lane of the warp shows the others its value, and looks at theirs before it may change.
void* warp_slot(unsigned lane);
template <class Shown, class Look> auto show(const Shown& shown, Look look) {
    std::memcpy(warp_slot(threadIdx.x % 32), &shown, sizeof shown);
    __syncwarp();
    const auto seen = look([](unsigned lane) -> const Shown& { return *static_cast<Shown*>(warp_slot(lane)); });
    __syncwarp();
    return seen;
}

template <class V> V __shfl_sync(unsigned, V value, int lane) {
    return show(value, [=](auto of_lane) { return of_lane(lane & 31); });
}
template <class V> V __shfl_up_sync(unsigned, V value, unsigned distance) {
    const unsigned lane = threadIdx.x % 32;
    return show(value, [=](auto of_lane) { return of_lane(lane < distance ? lane : lane - distance); });
}

inline int __float2int_rn(float value) { return int(lrintf(value)); }
inline float rsqrtf(float value) { return 1 / sqrtf(value); }
