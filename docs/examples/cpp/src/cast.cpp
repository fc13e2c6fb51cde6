// out[i] = x[i] as another element type, TO, over COUNT elements.
#include "element.h"

extern "C" void cast(const T* x, element::TO* out) {
    for (int i = 0; i < COUNT; ++i) out[i] = narrow<element::TO>(Acc(x[i]));
}
