/* Making one record; see pack_reader.h. */
#ifndef FB_JOBS_PACK_PACK_ITEM_H
#define FB_JOBS_PACK_PACK_ITEM_H

#include "jobs/pack/pack_reader.h"

void pack_item_init(struct pack_item *item);
/* Makes the record of item->sample; a failure is in item->error. Any thread. */
void pack_item_make(const struct pack_source *s, struct pack_item *item);
void pack_item_free(struct pack_item *item);

#endif
