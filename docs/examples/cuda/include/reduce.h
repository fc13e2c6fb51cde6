// Sum, Max and ArgMax over the lanes of a warp and the warps of a block. Every thread gets the result, and all
// threads of the warp or block must take part.
#pragma once
#include <math_constants.h>

#include "launch.h"

struct Sum {
    using Value = float;
    __device__ static Value none() { return 0.0f; }
    __device__ static Value join(Value a, Value b) { return a + b; }
    __device__ static Value from_lane(Value v, int lane) { return __shfl_sync(~0u, v, lane); }
};

struct Max {
    using Value = float;
    __device__ static Value none() { return -CUDART_INF_F; }
    __device__ static Value join(Value a, Value b) { return fmaxf(a, b); }
    __device__ static Value from_lane(Value v, int lane) { return __shfl_sync(~0u, v, lane); }
};

// The largest value and where it is; of equals the first.
struct ArgMax {
    struct Value {
        float value;
        int index;
    };
    __device__ static Value none() { return {-CUDART_INF_F, 0x7fffffff}; }
    __device__ static Value join(Value a, Value b) {
        return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
    }
    __device__ static Value from_lane(Value v, int lane) {
        return {__shfl_sync(~0u, v.value, lane), __shfl_sync(~0u, v.index, lane)};
    }
};

// Over groups of LANES neighbouring lanes: a butterfly, so that all of them end with the same bits.
template <class Op, int LANES = WARP> __device__ typename Op::Value warp_reduce(typename Op::Value value) {
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        value = Op::join(value, Op::from_lane(value, lane ^ distance));
    return value;
}

template <class Op> __device__ typename Op::Value block_reduce(typename Op::Value value) {
    __shared__ typename Op::Value of_warp[THREADS / WARP];
    const int lane = threadIdx.x % WARP;
    value = warp_reduce<Op>(value);
    if (lane == 0) of_warp[threadIdx.x / WARP] = value;
    __syncthreads();
    value = warp_reduce<Op>(lane < THREADS / WARP ? of_warp[lane] : Op::none());
    __syncthreads();  // the next reduction writes of_warp again
    return value;
}
