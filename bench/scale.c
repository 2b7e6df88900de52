/* What the order costs at a scale that no machine here has: a billion samples, a thousand ranks.
 *
 *     scale [SAMPLES [RANKS [BATCH_PER_RANK]]]
 *
 * For one rank after the other: restore a state, find the first batch's positions and samples, and count memory; then a stretch of an epoch
 * of one rank. That the ranks share the first global batches without overlap is checked, not assumed. Then the disk caches of all ranks
 * (scale_cache.c). Prints JSON. Nothing here opens a data set: the catalog and the network have their arithmetic in docs/scale.md.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "order/order.h"
#include "order/ranks/ranks.h"
#include "order/state/state.h"
#include "scale.h"

enum { BATCHES = 4 /* checked for overlap */, STRETCH = 2000000 };

struct costs {
    uint64_t restore_ns, worst_restore_ns, first_batch_ns;
    uint64_t checked, doubled;
};

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* From the JSON to the samples of the first batches, as a rank does that starts again. Returns how many. */
static uint64_t restore(const char *json, struct rank_layout l, uint64_t *samples, struct costs *c)
{
    struct state s;
    uint64_t version, count = 0, t0 = clock_now_ns();
    uint32_t faults;
    struct order o;
    if (state_read(&s, json, &version, &faults, NULL) < 0 || faults)
        abort();
    order_init(&o, l.count, s.seed, s.epoch, true, NULL);
    struct batch_span span = ranks_batch_left(&l, &s.skips, s.position, 0);
    samples[0] = order_at(&o, skips_position(&s.skips, span.first));
    uint64_t restored = clock_now_ns() - t0;
    c->restore_ns += restored;
    c->worst_restore_ns = restored > c->worst_restore_ns ? restored : c->worst_restore_ns;
    for (uint64_t g = 0; g < BATCHES; g++) {
        span = ranks_batch_left(&l, &s.skips, s.position, g);
        for (uint64_t i = 0; i < span.count; i++)
            samples[count++] = order_at(&o, skips_position(&s.skips, span.first + i));
    }
    c->first_batch_ns += clock_now_ns() - t0;
    return count;
}

static void restore_all(const char *json, struct rank_layout l, struct costs *c)
{
    uint64_t *samples = malloc((l.global_batch * BATCHES + 1) * sizeof(*samples)), count = 0;
    if (!samples)
        abort();
    for (l.rank = 0; l.rank < l.world; l.rank++)
        count += restore(json, l, samples + count, c);
    qsort(samples, count, sizeof(*samples), by_value);
    for (uint64_t i = 1; i < count; i++)
        c->doubled += samples[i] == samples[i - 1];
    c->checked = count;
    free(samples);
}

/* Nanoseconds per sample of a long stretch of one rank. */
static double walk(struct rank_layout l, uint64_t seed)
{
    struct order o;
    struct skips none = {0};
    uint64_t done = 0, sum = 0, t0 = clock_now_ns();
    order_init(&o, l.count, seed, 1, true, NULL);
    for (uint64_t g = 0; done < STRETCH && g < ranks_batches_left(&l, &none, 0); g++) {
        struct batch_span span = ranks_batch_left(&l, &none, 0, g);
        for (uint64_t i = 0; i < span.count; i++)
            sum += order_at(&o, span.first + i);
        done += span.count;
    }
    double ns = (double)(clock_now_ns() - t0) / (double)done;
    return sum ? ns : 0;
}

static uint64_t number(int argc, char **argv, int i, uint64_t otherwise)
{
    return argc > i ? strtoull(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    uint64_t n = number(argc, argv, 1, 1000000000), world = number(argc, argv, 2, 1024), batch = number(argc, argv, 3, 64);
    struct rank_layout l = {.count = n, .global_batch = batch * world, .world = (uint32_t)world};
    struct state s = {.seed = 42,
                      .epoch = 3,
                      .position = n / 3 / l.global_batch * l.global_batch,
                      .origin = {.fingerprint = 1, .samples = n, .data_samples = n, .order = ORDER_SHUFFLED}};
    struct fb_error e = {0};
    struct costs c = {0};
    struct rusage usage;
    char json[STATE_MOST_BYTES];
    if (ranks_check(&l, &e) < 0 || n < 3 * BATCHES * l.global_batch) {
        fprintf(stderr, "scale: %s\n", e.cause[0] ? e.cause : "too few samples for so many ranks");
        return 2;
    }
    state_write(&s, json, sizeof(json));
    restore_all(json, l, &c);
    double ns = walk(l, s.seed);
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"samples\":%" PRIu64 ",\"ranks\":%" PRIu64 ",\"global_batch\":%" PRIu64 ",\"batches_per_epoch\":%" PRIu64 ",", n, world,
           l.global_batch, ranks_batch_count(&l, 0));
    printf("\"state_bytes\":%zu,\"order_bytes_per_rank\":%zu,", strlen(json),
           sizeof(struct order) + sizeof(struct rank_layout) + sizeof(s));
    printf("\"restore_mean_us\":%.3f,\"restore_worst_us\":%.3f,\"first_%d_batches_us\":%.3f,", (double)c.restore_ns / (double)world / 1e3,
           (double)c.worst_restore_ns / 1e3, BATCHES, (double)c.first_batch_ns / (double)world / 1e3);
    printf("\"samples_checked\":%" PRIu64 ",\"samples_doubled\":%" PRIu64 ",", c.checked, c.doubled);
    printf("\"order_ns_per_sample\":%.1f,\"order_s_per_epoch_and_rank\":%.3f,\"process_peak_bytes\":%ld,\"cache\":", ns,
           ns * (double)n / (double)world / 1e9, usage.ru_maxrss * 1024);
    bool are_caches_right = scale_caches(l, s.seed);
    printf("}\n");
    return c.doubled || !are_caches_right ? 1 : 0;
}
