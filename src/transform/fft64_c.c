#define FFT_IS_DOUBLE
#define FFT_NAME(x) x##_c
#include "transform/fft_body.h"
