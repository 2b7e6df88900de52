#define FFT_IS_DOUBLE
#define FFT_NAME(x) x##_avx2
#include "transform/sound/fft/fft_body.h"
