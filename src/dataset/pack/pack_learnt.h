/* What was learnt about the samples of a pack before it was packed, taken over on this machine. */
#ifndef FB_DATASET_PACK_PACK_LEARNT_H
#define FB_DATASET_PACK_PACK_LEARNT_H

#include "base/log.h"
#include "dataset/pack/pack_index.h"
#include "dataset/tar/tar_table.h"

/* Puts the pack's records into the store at `learnt_dir`, once for each pack as it is now. Failing costs time later and nothing else. */
void pack_learnt_import(const struct archive *a, const struct catalog *c, const char *learnt_dir, const struct log *log);

#endif
