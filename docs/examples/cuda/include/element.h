// The element type of an operator, named by -DDTYPE=float32, float16 or bfloat16.
//
//   T           how an element is stored
//   widen       from stored to float, in which everything is computed
//   narrow<T>   from float to stored, to nearest, ties to even
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace element {

using float32 = float;
using float16 = __half;
using bfloat16 = __nv_bfloat16;
using int32 = int;
using int8 = signed char;

__device__ inline float widen(float32 value) { return value; }
__device__ inline float widen(float16 value) { return __half2float(value); }
__device__ inline float widen(bfloat16 value) { return __bfloat162float(value); }
__device__ inline float widen(int8 value) { return value; }

template <class Stored> __device__ Stored narrow(float value);
template <> __device__ inline float32 narrow<float32>(float value) { return value; }
template <> __device__ inline float16 narrow<float16>(float value) { return __float2half_rn(value); }
template <> __device__ inline bfloat16 narrow<bfloat16>(float value) { return __float2bfloat16_rn(value); }
template <> __device__ inline int8 narrow<int8>(float value) {
    return int8(__float2int_rn(fminf(fmaxf(value, -128.0f), 127.0f)));
}

}  // namespace element

using element::narrow;
using element::widen;
using T = element::DTYPE;
