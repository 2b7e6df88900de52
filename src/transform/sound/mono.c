/* mono: all channels mixed into one, their mean; done while numbers are converted. */
#include "transform/transform_list.h"

static const struct option mono_options[] = {{0}};

const struct transform_ops transform_mono = {
    .name = "mono",
    .takes = TAKES_SOUND,
    .options = mono_options,
    .role = STEP_MIXES,
};
