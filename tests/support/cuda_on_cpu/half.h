// The 16-bit types as the C++ examples have them: bits, rounded as a GPU rounds.
#pragma once
#include "device.h"

namespace on_cpu {
#include "../../../docs/examples/cpp/include/half.h"
}

using __half = on_cpu::element::float16;
using __nv_bfloat16 = on_cpu::element::bfloat16;

inline float __half2float(__half value) { return float(value); }
inline float __bfloat162float(__nv_bfloat16 value) { return float(value); }
inline __half __float2half_rn(float value) { return __half(value); }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return __nv_bfloat16(value); }
