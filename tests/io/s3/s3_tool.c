/* The s3 back-end and store from a command line, for tests and benches.
 *
 *     s3_tool list URL                      one line per object: key size mtime_ns (key escaped as JSON)
 *     s3_tool get OPTIONS URL DEPTH < LINES one line of JSON per request, in the order of the requests
 *     s3_tool run OPTIONS URL DEPTH < LINES only the sum: objects, bytes, seconds, CPU, quantiles of the time per object, the loop's
 * figures
 *     s3_tool keys                          which keys would be used: the access key and where it comes from, never the others
 *     s3_tool ages < LINES                  the same as time goes by: a line is `at SECONDS` from now, `refuse` (the server has), or `wait`
 *                                           for the thread that renews them; each is answered at once
 *
 * OPTIONS are those of the back-end ("hedge=0,attempts=3", "-" for none). A line is `path TAB offset TAB length TAB expected_size TAB
 * expected_mtime_ns TAB must_match TAB capacity`, all but the path optional; length -1 is the whole object.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/text/json_writer.h"
#include "io/io_list.h"
#include "io/s3/keys/s3_credentials.h"
#include "io/s3/loop/s3_figures.h"
#include "io/s3/keys/s3_sha256.h"

struct job {
    char *path;
    int64_t offset, length, expected_size, mtime_ns, must_match, capacity;
    struct io_request r;
    struct fb_error error;
    uint64_t ns;
    bool is_done;
};

static struct {
    struct job *job;
    size_t count, next, done, in_flight, depth;
    bool must_keep;
    struct io *io;
    pthread_mutex_t lock;
    pthread_cond_t came;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .came = PTHREAD_COND_INITIALIZER};

static void say(void *ctx, int level, const char *line)
{
    (void)ctx, (void)level;
    fprintf(stderr, "log: %s\n", line);
}

static const struct log to_stderr = {say, NULL};

static int fail(const struct fb_error *e)
{
    char line[2200];
    fb_format_error(e, line, sizeof(line));
    fprintf(stderr, "s3_tool: %s\n", line);
    return 1;
}

/* ---- requests ---- */

static void read_lines(void)
{
    char *line = NULL;
    size_t size = 0, capacity = 0;
    for (ssize_t n; (n = getline(&line, &size, stdin)) > 0;) {
        if (line[n - 1] == '\n')
            line[n - 1] = 0;
        if (all.count == capacity)
            all.job = realloc(all.job, (capacity = 2 * capacity + 1024) * sizeof(*all.job));
        struct job *j = &all.job[all.count++];
        *j = (struct job){.path = strdup(line), .length = -1};
        int64_t *field[] = {&j->offset, &j->length, &j->expected_size, &j->mtime_ns, &j->must_match, &j->capacity};
        char *rest = strchr(j->path, '\t');
        for (size_t i = 0; rest && i < sizeof(field) / sizeof(field[0]); i++) {
            *rest++ = 0;
            *field[i] = strtoll(rest, NULL, 10);
            rest = strchr(rest, '\t');
        }
    }
    free(line);
}

/* Memory of large requests is touched before the clock runs: loaders use theirs again and again. Small ones get what malloc has. */
static void warm_up(void)
{
    for (size_t i = 0; i < all.count && i < 16; i++) {
        struct job *j = &all.job[i];
        uint64_t bytes = (uint64_t)(j->length >= 0 ? j->length : j->expected_size);
        if (bytes >= (32u << 20) && !j->capacity && (j->r.buffer = malloc(bytes + IO_TAIL)))
            memset(j->r.buffer, 1, bytes + IO_TAIL);
    }
}

static void on_done(struct io_request *r)
{
    struct job *j = r->owner;
    pthread_mutex_lock(&all.lock);
    j->is_done = true;
    j->ns = r->done_ns - r->submitted_ns;
    all.done++;
    all.in_flight--;
    if (!all.must_keep) {
        free(r->buffer);
        r->buffer = NULL;
    }
    pthread_cond_signal(&all.came);
    pthread_mutex_unlock(&all.lock);
}

static void submit(struct job *j)
{
    uint64_t bytes = (uint64_t)(j->length >= 0 ? j->length : j->expected_size);
    size_t capacity = j->capacity ? (size_t)j->capacity : bytes + IO_TAIL;
    error_clear(&j->error);
    j->r = (struct io_request){.dir_fd = -1,
                               .path = j->path,
                               .offset = (uint64_t)j->offset,
                               .length = j->length >= 0 ? (uint64_t)j->length : IO_WHOLE,
                               .expected_size = (uint64_t)j->expected_size,
                               .buffer = j->r.buffer ? j->r.buffer : malloc(capacity),
                               .capacity = capacity,
                               .done = on_done,
                               .owner = j,
                               .expected_mtime_ns = j->mtime_ns,
                               .must_match = j->must_match != 0,
                               .error = &j->error};
    all.io->ops->submit(all.io, &j->r, false);
}

static void run_all(void)
{
    pthread_mutex_lock(&all.lock);
    while (all.done < all.count) {
        while (all.next < all.count && all.in_flight < all.depth) {
            struct job *j = &all.job[all.next++];
            all.in_flight++;
            pthread_mutex_unlock(&all.lock);
            submit(j);
            pthread_mutex_lock(&all.lock);
        }
        if (all.done < all.count && (all.in_flight == all.depth || all.next == all.count))
            pthread_cond_wait(&all.came, &all.lock);
    }
    pthread_mutex_unlock(&all.lock);
}

static void print_job(const struct job *j)
{
    struct text t = {.limit = 1 << 20};
    char hex[2 * SHA256_BYTES + 1] = "";
    uint8_t hash[SHA256_BYTES];
    struct sha256 s;
    if (j->r.status == 0) {
        sha256_start(&s);
        sha256_add(&s, j->r.buffer, j->r.got);
        sha256_end(&s, hash);
        sha256_hex(hash, hex);
    }
    struct json_writer w = {.out = &t};
    json_put(&w, J_OBJECT(NULL, J("path", j->path), J("status", j->r.status), J("got", j->r.got), J("object_size", j->r.object_size),
                          J("mtime_ns", j->r.object_mtime_ns), J("sha256", hex), J("cause", j->error.cause), J("remedy", j->error.remedy),
                          J("ns", j->ns)));
    puts(t.data);
    text_free(&t);
}

static int by_ns(const void *a, const void *b)
{
    uint64_t x = ((const struct job *)a)->ns, y = ((const struct job *)b)->ns;
    return x < y ? -1 : x > y;
}

static double quantile_ms(double q)
{
    return all.count ? (double)all.job[(size_t)(q * (double)(all.count - 1))].ns / 1e6 : 0;
}

static void print_sum(double seconds, double cpu)
{
    uint64_t bytes = 0, failed = 0;
    struct s3_loop_figures f;
    io_s3_figures(all.io, &f);
    for (size_t i = 0; i < all.count; i++) {
        bytes += all.job[i].r.got;
        failed += all.job[i].r.status != 0;
        if (all.job[i].r.status < 0 && failed <= 3)
            fail(&all.job[i].error);
    }
    qsort(all.job, all.count, sizeof(*all.job), by_ns);
    printf("{\"objects\":%zu,\"failed\":%llu,\"bytes\":%llu,\"seconds\":%.6f,\"cpu_seconds\":%.6f,\"objects_per_second\":%.1f,"
           "\"bytes_per_second\":%.0f,\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"p999_ms\":%.3f,\"most_ms\":%.3f,"
           "\"turns\":%llu,\"requests\":%llu,\"retries\":%llu,\"hedges\":%llu,\"hedges_won\":%llu,\"slow_downs\":%llu,\"window\":%u}\n",
           all.count, (unsigned long long)failed, (unsigned long long)bytes, seconds, cpu, (double)all.count / seconds,
           (double)bytes / seconds, quantile_ms(0.5), quantile_ms(0.99), quantile_ms(0.999), quantile_ms(1), (unsigned long long)f.turns,
           (unsigned long long)f.requests, (unsigned long long)f.retries, (unsigned long long)f.hedges, (unsigned long long)f.hedges_won,
           (unsigned long long)f.slow_downs, f.window);
}

static int get(int argc, char **argv, bool prints_all)
{
    struct fb_error e;
    char spec[4096];
    if (argc != 5)
        return 2;
    error_clear(&e);
    snprintf(spec, sizeof(spec), "s3:%s%surl=%s", strcmp(argv[2], "-") ? argv[2] : "", strcmp(argv[2], "-") ? "," : "", argv[3]);
    all.depth = (size_t)atoi(argv[4]);
    all.must_keep = prints_all;
    if (io_open(&all.io, spec, (uint32_t)all.depth, &to_stderr, &e) < 0)
        return fail(&e);
    read_lines();
    warm_up();
    uint64_t since = clock_now_ns(), cpu = clock_cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
    run_all();
    double seconds = (double)(clock_now_ns() - since) / 1e9, used = (double)(clock_cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 1e9;
    for (size_t i = 0; i < all.count && prints_all; i++)
        print_job(&all.job[i]);
    print_sum(seconds, used);
    all.io->ops->close(all.io, 1000000000);
    for (size_t i = 0; i < all.count; i++) {
        free(all.job[i].path);
        free(all.job[i].r.buffer);
    }
    free(all.job);
    return 0;
}

/* ---- listing and keys ---- */

static int print_object(void *ctx, const struct store_object *o, struct fb_error *e)
{
    (void)ctx, (void)e;
    struct text t = {.limit = 1 << 20};
    json_put(&(struct json_writer){.out = &t}, J(NULL, o->key));
    printf("%s %llu %lld\n", t.data, (unsigned long long)o->size, (long long)o->mtime_ns);
    text_free(&t);
    return 0;
}

static int list(const char *url)
{
    struct fb_error e;
    struct store *s;
    error_clear(&e);
    if (store_s3.open(&s, url, &to_stderr, &e) < 0)
        return fail(&e);
    int rc = store_s3.list(s, print_object, NULL, NULL, &e);
    store_s3.close(s);
    return rc < 0 ? fail(&e) : 0;
}

static int keys(void)
{
    struct fb_error e;
    struct s3_place p;
    struct s3_credentials *c;
    error_clear(&e);
    if (s3_place_find(&p, "s3://bucket/x", &e) < 0 || s3_credentials_open(&c, &p, &to_stderr, &e) < 0)
        return fail(&e);
    const struct s3_keys *k = s3_credentials_now(c, (int64_t)time(NULL), &e);
    printf("%s from %s, %s token, region %s, host %s\n", k->access_key, k->from, *s3_keys_token(k) ? "a" : "no", p.region, p.host);
    s3_credentials_close(c);
    return 0;
}

static void on_refresh(void *ctx)
{
    (void)ctx;
    pthread_mutex_lock(&all.lock);
    all.done++;
    pthread_cond_signal(&all.came);
    pthread_mutex_unlock(&all.lock);
}

static uint32_t print_keys_at(struct s3_credentials *c, int64_t seconds)
{
    struct fb_error e;
    error_clear(&e);
    const struct s3_keys *k = s3_credentials_now(c, (int64_t)time(NULL) + seconds, &e);
    printf("%s\n", k ? k->access_key : e.code ? e.cause : "none yet");
    return k ? k->generation : 0;
}

static int ages(void)
{
    struct fb_error e;
    struct s3_place p;
    struct s3_credentials *c;
    char line[100];
    uint32_t generation = 0;
    error_clear(&e);
    if (s3_place_find(&p, "s3://bucket/x", &e) < 0 || s3_credentials_open(&c, &p, &to_stderr, &e) < 0)
        return fail(&e);
    s3_credentials_on_refresh(c, on_refresh, NULL);
    while (fgets(line, sizeof(line), stdin)) {
        if (strncmp(line, "at ", 3) == 0) {
            generation = print_keys_at(c, strtoll(line + 3, NULL, 10));
        } else if (strcmp(line, "refuse\n") == 0) {
            s3_credentials_refuse(c, generation);
            puts("refused");
        } else {
            pthread_mutex_lock(&all.lock);
            while (all.done == 0)
                pthread_cond_wait(&all.came, &all.lock);
            all.done = 0;
            pthread_mutex_unlock(&all.lock);
            puts("waited");
        }
        fflush(stdout);
    }
    s3_credentials_close(c);
    return 0;
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    if (strcmp(verb, "list") == 0 && argc == 3)
        return list(argv[2]);
    if (strcmp(verb, "keys") == 0)
        return keys();
    if (strcmp(verb, "ages") == 0)
        return ages();
    if (strcmp(verb, "get") == 0 || strcmp(verb, "run") == 0)
        return get(argc, argv, strcmp(verb, "get") == 0);
    fputs("usage: s3_tool list URL | keys | ages < LINES | get|run OPTIONS URL DEPTH < LINES\n", stderr);
    return 2;
}
