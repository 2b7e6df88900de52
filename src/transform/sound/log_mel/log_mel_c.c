#define LOG_MEL_NAME(x) x##_c
#include "transform/sound/log_mel/log_mel_body.h"
