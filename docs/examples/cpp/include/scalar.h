// What happens to one element; an operator names its function with -DOP=….
#pragma once
#include <cmath>

namespace scalar {

template <class V> V add(V a, V b) { return a + b; }
template <class V> V sub(V a, V b) { return a - b; }
template <class V> V mul(V a, V b) { return a * b; }
template <class V> V maximum(V a, V b) { return a < b ? b : a; }

template <class V> V relu(V x) { return x < V(0) ? V(0) : x; }
template <class V> V sigmoid(V x) { return V(1) / (V(1) + std::exp(-x)); }
template <class V> V silu(V x) { return x * sigmoid(x); }
template <class V> V tanh(V x) { return std::tanh(x); }
template <class V> V gelu(V x) { return V(0.5) * x * (V(1) + std::erf(x * V(0.70710678118654752440))); }

}  // namespace scalar
