/* Catalogs of packs: of one, and of several shards put together. */
#ifndef FB_DATASET_PACK_PACK_MERGE_H
#define FB_DATASET_PACK_PACK_MERGE_H

#include "dataset/pack/pack_index.h"
#include "dataset/tar/tar_table.h"

/* The pack's own catalog. */
int pack_open_catalog(const struct archive *a, struct catalog **out, struct fb_error *e);
/* Adds the samples of all packs to job->w. FB_E_DATA: their labels are not of the same kind. */
int pack_merge(struct dataset_job *job, const struct archive *packs, uint32_t count, struct fb_error *e);

#endif
