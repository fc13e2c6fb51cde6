#include "half.h"
