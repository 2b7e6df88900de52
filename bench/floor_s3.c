/* floor_s3: a bare libcurl-multi loop. GETs of URLs that are signed already, CONCURRENCY at a time, into memory that is used again.
 *
 *     floor_s3 CONCURRENCY < LINES        a line is a URL, or URL TAB FIRST TAB LAST for a range
 *
 * One thread, one easy handle per request in flight, curl_multi_poll; nothing is checked but the status and that bytes came. Prints one
 * JSON object.
 */
#include <curl/curl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct job {
    char *url, *range;
};

struct slot {
    CURL *easy;
    uint8_t *memory;
    size_t got, room;
};

static struct job *job;
static size_t job_count, next_job, bytes, objects;

static void die(const char *what)
{
    fprintf(stderr, "floor_s3: %s\n", what);
    exit(1);
}

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static size_t take(char *data, size_t size, size_t n, void *ctx)
{
    struct slot *s = ctx;
    n *= size;
    if (s->got + n > s->room)
        s->memory = realloc(s->memory, s->room = 2 * (s->got + n));
    if (!s->memory)
        die("no memory");
    memcpy(s->memory + s->got, data, n);
    s->got += n;
    return n;
}

static void read_jobs(void)
{
    char *line = NULL;
    size_t size = 0, capacity = 0;
    for (ssize_t n; (n = getline(&line, &size, stdin)) > 1;) {
        line[n - 1] = 0;
        if (job_count == capacity && !(job = realloc(job, (capacity = 2 * capacity + 1024) * sizeof *job)))
            die("no memory");
        char *tab = strchr(line, '\t');
        if (tab) {
            *tab++ = 0;
            *strchr(tab, '\t') = '-';
        }
        job[job_count++] = (struct job){strdup(line), tab ? strdup(tab) : NULL};
    }
    free(line);
}

static int start(CURLM *multi, struct slot *s)
{
    if (next_job == job_count)
        return 0;
    s->got = 0;
    curl_easy_setopt(s->easy, CURLOPT_URL, job[next_job].url);
    curl_easy_setopt(s->easy, CURLOPT_RANGE, job[next_job].range);
    next_job++;
    curl_multi_add_handle(multi, s->easy);
    return 1;
}

static void open_slot(struct slot *s)
{
    s->easy = curl_easy_init();
    curl_easy_setopt(s->easy, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(s->easy, CURLOPT_WRITEDATA, s);
    curl_easy_setopt(s->easy, CURLOPT_PRIVATE, s);
    curl_easy_setopt(s->easy, CURLOPT_BUFFERSIZE, 102400L);
    curl_easy_setopt(s->easy, CURLOPT_PATH_AS_IS, 1L);
}

static int finish(CURLM *multi, const CURLMsg *m)
{
    struct slot *s;
    long status;
    curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&s);
    curl_easy_getinfo(m->easy_handle, CURLINFO_RESPONSE_CODE, &status);
    if (m->data.result != CURLE_OK || (status != 200 && status != 206))
        die(m->data.result ? curl_easy_strerror(m->data.result) : "an answer that is not 200");
    objects++;
    bytes += s->got;
    curl_multi_remove_handle(multi, s->easy);
    return start(multi, s);
}

int main(int argc, char **argv)
{
    int concurrency = argc == 2 ? atoi(argv[1]) : 0, active = 0, running, left;
    if (concurrency < 1)
        die("usage: floor_s3 CONCURRENCY < LINES");
    curl_global_init(CURL_GLOBAL_DEFAULT);
    CURLM *multi = curl_multi_init();
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)concurrency + 8);
    struct slot *slot = calloc((size_t)concurrency, sizeof *slot);
    read_jobs();
    double since = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < concurrency; i++) {
        open_slot(&slot[i]);
        active += start(multi, &slot[i]);
    }
    while (active > 0) {
        curl_multi_perform(multi, &running);
        for (CURLMsg *m; (m = curl_multi_info_read(multi, &left));)
            active -= !finish(multi, m);
        if (active > 0)
            curl_multi_poll(multi, NULL, 0, 1000, NULL);
    }
    double took = seconds(CLOCK_MONOTONIC) - since, used = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("{\"objects\":%zu,\"bytes\":%zu,\"seconds\":%.6f,\"cpu_seconds\":%.6f,\"objects_per_second\":%.1f,\"bytes_per_second\":%.0f}\n",
           objects, bytes, took, used, (double)objects / took, (double)bytes / took);
    return 0;
}
