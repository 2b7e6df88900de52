/* How far a mistyped name is from a real one. */
#ifndef FB_ORDER_EDIT_DISTANCE_H
#define FB_ORDER_EDIT_DISTANCE_H

/* Insertions, deletions and replacements of bytes that turn a into b (Levenshtein); of the first 255 bytes of each. */
int edit_distance(const char *a, const char *b);

#endif
