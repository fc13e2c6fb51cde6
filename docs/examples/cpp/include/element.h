// The element type of an operator, named by -DDTYPE=float32, float64, float16, bfloat16, int32 or int8.
//
//   T           how an element is stored
//   Acc         how it is computed: float for the 16-bit types, int32 for int8
//   narrow<T>   from computed to stored: rounds the 16-bit types, saturates int8
#pragma once
#include <cstdint>

#include "half.h"

namespace element {

using float32 = float;
using float64 = double;
using int32 = std::int32_t;
using int8 = std::int8_t;

template <class Stored> struct computed { using type = float; };
template <> struct computed<float64> { using type = double; };
template <> struct computed<int32> { using type = std::int32_t; };
template <> struct computed<int8> { using type = std::int32_t; };

template <class Stored, class Value> Stored narrow(Value value) { return Stored(value); }
template <> inline int8 narrow<int8, std::int32_t>(std::int32_t value) {
    return int8(value < -128 ? -128 : value > 127 ? 127 : value);
}

}  // namespace element

using element::narrow;
using T = element::DTYPE;
using Acc = element::computed<T>::type;
