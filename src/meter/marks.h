/* Marks: what a training loop tells whoever watches it, exactly and cheaply.
 *
 * `fullbore watch` names a file in the environment (FULLBORE_MARKS); loaders and monitors of the watched program append to it, 32 bytes per
 * batch, collected for a tenth of a second. The file is opened without being created, so a variable left over from an old run does nothing.
 * Appends are whole records (O_APPEND), so several processes may share the file. A reader takes whole records and ignores the rest.
 */
#ifndef FB_METER_MARKS_H
#define FB_METER_MARKS_H

#include <stdbool.h>
#include <stdint.h>

enum mark_kind { MARK_EPOCH = 1, MARK_BATCH, MARK_END };

struct mark {
    uint64_t at_ns;       /* CLOCK_MONOTONIC; in a recording since watching began */
    uint64_t wait_ns;     /* of a batch: from entering next() to having it; of an epoch's first, starting the epoch as well */
    uint64_t wait_cpu_ns; /* of that: on the CPU of the calling thread */
    uint32_t pid;
    uint16_t loop; /* which loop of that process */
    uint16_t kind;
};

/* One per loop; only its loop's thread touches it. Zero-initialised it writes nowhere. */
enum { MARKS_KEPT = 64 };
struct marks {
    int fd; /* -1: nowhere */
    uint16_t loop;
    uint32_t count;
    uint64_t sent_ns;
    struct mark kept[MARKS_KEPT];
};
void marks_open(struct marks *m);
/* Kept, and written when there are many or a tenth of a second has passed; the ends of an epoch at once. */
void marks_add(struct marks *m, enum mark_kind kind, uint64_t at_ns, uint64_t wait_ns, uint64_t wait_cpu_ns);
void marks_close(struct marks *m);

/* The watcher's side: makes the file, and takes what has come since. */
struct marks_reader {
    int fd; /* -1: none */
    char path[96];
    uint64_t at; /* bytes taken; the file's blocks before it are given back */
};
bool marks_reader_open(struct marks_reader *r);
/* At most `most` marks; returns how many. Nonsense is left out. */
int marks_take(struct marks_reader *r, struct mark *out, int most);
void marks_reader_close(struct marks_reader *r);

#endif
