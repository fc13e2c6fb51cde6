// out[i] = OP(a[i], b[i]) over COUNT elements.
#include "element.h"
#include "scalar.h"

extern "C" void binary(const T* a, const T* b, T* out) {
    for (int i = 0; i < COUNT; ++i) out[i] = narrow<T>(scalar::OP(Acc(a[i]), Acc(b[i])));
}
