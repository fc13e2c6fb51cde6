// 2-D pooling, NCHW, with OP: max or avg (padding is not counted); see window.h for the shape.
#include <limits>

#include "element.h"
#include "window.h"

namespace pooling {
struct max {
    Acc value = std::numeric_limits<Acc>::lowest();
    void add(Acc x) { value = value < x ? x : value; }
    Acc result() const { return value; }
};
struct avg {
    Acc value = 0;
    int count = 0;
    void add(Acc x) { value += x, ++count; }
    Acc result() const { return value / count; }
};
}  // namespace pooling

extern "C" void pool2d(const T* image, T* out) {
    using namespace window;
    for (int plane = 0; plane < BATCH * CHANNELS; ++plane, image += HEIGHT * WIDTH)
        for (int y = 0; y < HEIGHT_OUT; ++y)
            for (int x = 0; x < WIDTH_OUT; ++x) {
                pooling::OP pool;
                each(y, x, [&](int at, int) { pool.add(Acc(image[at])); });
                *out++ = narrow<T>(pool.result());
            }
}
