/* The edit distance between a mistyped name and a real one. */
#ifndef FB_BASE_TEXT_EDIT_DISTANCE_H
#define FB_BASE_TEXT_EDIT_DISTANCE_H

/* What it costs to insert a byte of b into a, to remove one from a, to replace one. */
struct edit_costs {
    int insert, remove, replace;
};

/* Insertions, deletions and replacements of bytes that turn a into b (Levenshtein); of the first 255 bytes of each. */
int edit_distance(const char *a, const char *b);
int edit_distance_weighted(const char *a, const char *b, struct edit_costs c);

#endif
