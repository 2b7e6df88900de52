#define LOG_MEL_NAME(x) x##_c
#include "transform/log_mel_body.h"
