// out[i] = table[index[i]]: PICKS rows of a table of ROWS x COLS. An index outside the table gives zeros.
#include "element.h"

extern "C" void gather(const T* table, const element::int32* index, T* out) {
    for (int i = 0; i < PICKS; ++i)
        for (int c = 0; c < COLS; ++c)
            out[i * COLS + c] = index[i] >= 0 && index[i] < ROWS ? table[index[i] * COLS + c] : narrow<T>(Acc(0));
}
