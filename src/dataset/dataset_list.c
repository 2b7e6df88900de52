#include "dataset/dataset_ops.h"

const struct dataset_ops *const dataset_kinds[] = {
    &dataset_from_list, /* asks for `paths`, whatever the source is */
    &dataset_s3_tar,    &dataset_s3,  &dataset_folder, &dataset_manifest,
    &dataset_single,    &dataset_tar, /* before glob: "train-*.tar" means the archives' samples */
    &dataset_glob,      NULL,
};
