// out[i] = OP(x[i]) over COUNT elements.
#include "element.h"
#include "scalar.h"

extern "C" void unary(const T* x, T* out) {
    for (int i = 0; i < COUNT; ++i) out[i] = narrow<T>(scalar::OP(Acc(x[i])));
}
