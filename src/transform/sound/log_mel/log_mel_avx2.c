#define LOG_MEL_NAME(x) x##_avx2
#include "transform/sound/log_mel/log_mel_body.h"
