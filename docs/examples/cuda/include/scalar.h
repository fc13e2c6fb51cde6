// What happens to one element; an operator names its function with -DOP=….
#pragma once

namespace scalar {

__device__ inline float add(float a, float b) { return a + b; }
__device__ inline float sub(float a, float b) { return a - b; }
__device__ inline float mul(float a, float b) { return a * b; }
__device__ inline float maximum(float a, float b) { return fmaxf(a, b); }

__device__ inline float identity(float x) { return x; }
__device__ inline float relu(float x) { return fmaxf(x, 0.0f); }
__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ inline float silu(float x) { return x * sigmoid(x); }
__device__ inline float tanh(float x) { return tanhf(x); }
__device__ inline float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }

}  // namespace scalar
