/* A load of whole files, as the files that work on it see it: a bag of instances, an array, a clip of sound.
 *
 *   bag.c        opens the files, looks into them, and runs the rest
 *   bag_pick.c   which rows are wanted, and whether they fit their place
 *   bag_rows.c   has array_walk.h bring them
 *   bag_sound.c  the same for sound
 *
 * A sample may be several files, the slides of a patient. Its instances are then those of all its parts, one after the other: a field of
 * instances takes its rows from every part, one of a fixed shape from the first.
 */
#ifndef FB_FEED_SINGLE_BAG_H
#define FB_FEED_SINGLE_BAG_H

#include "codec/sound/clip.h"
#include "feed/array_walk.h"
#include "feed/arrays.h"

/* Which rows: `count` of them, from `first` on or as listed. */
struct picked {
    uint64_t first, count;
    const uint64_t *list; /* ascending; NULL: all from first on */
    uint64_t base;        /* what the list's numbers count from */
};

struct bag_part {
    struct catalog_sample where; /* as the file was when it was opened */
    int fd;                      /* -1: it was brought */
    const struct array_file *file;
    uint64_t first, rows; /* its instances among those of all parts */
};

struct bag {
    struct worker *w;
    struct feed *f;
    struct load *l;
    struct array_walk walk;
    struct bag_part *part, *now; /* all; the one at hand */
    uint32_t parts;
    struct picked picked; /* of all parts */
    struct clip clip;     /* sound */
    struct rng rng;       /* sound: after the crops */
    const uint8_t *bytes; /* of the whole file, if it was brought; NULL: it is read by the worker */
};

/* FB_E_DATA, about the part at hand. */
int bag_refuse(const struct bag *b, struct fb_error *e, const char *cause, const char *remedy);

/* A field of the part at hand; NULL: it has none. */
static inline const struct array_layout *bag_layout(const struct bag *b, int field)
{
    return array_find(b->now->file, arrays_of(b->f)->want[field].source);
}

/* Checks all fields of all parts, picks rows, and finds room for them. */
int bag_prepare(struct bag *b, struct fb_error *e);
/* The same for sound, whose place takes any type. */
int bag_pick(struct bag *b, uint64_t there, struct fb_error *e);
int bag_check_room(struct bag *b, struct fb_error *e);
/* Rows of the part at hand that go into a field. */
struct picked bag_picked(const struct bag *b, int field, const struct array_layout *l);

/* Lists all reads; takes what they brought. */
int bag_list(struct bag *b, struct fb_error *e);
int bag_take(struct bag *b, struct fb_error *e);

/* Frames as stored, the picked ones only -> the place. */
int bag_place_sound(struct bag *b, const struct array_layout *l, const uint8_t *frames, struct fb_error *e);
/* A recording that was brought. */
int bag_place_clip(struct bag *b, struct fb_error *e);
/* Compressed sound, out of b->bytes, by its own reader. */
int bag_place_compressed(struct bag *b, const struct array_layout *l, struct fb_error *e);

#endif
