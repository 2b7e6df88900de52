#define FFT_IS_DOUBLE
#define FFT_NAME(x) x##_c
#include "transform/sound/fft/fft_body.h"
