#include "jobs/build_report.h"

#include <stdio.h>

#include "host/host.h"

enum { LOW_DEPTH = 8 };

/* ---- sums ---- */

static struct build_figures sum_of(const struct build_result *r)
{
    struct build_figures all = {0};
    for (int s = 0; s < BUILD_MAX_SPLITS; s++) {
        const struct build_figures *f = &r->split[s];
        all.files += f->files;
        all.rows += f->rows;
        all.bad += f->bad;
        all.bytes_read += f->bytes_read;
        for (int i = 0; i < BUILD_STAGES; i++)
            all.seconds[i] += f->seconds[i];
        all.file_cpu_seconds += f->file_cpu_seconds;
        all.batch_seconds += f->batch_seconds;
        all.batch_most = f->batch_most > all.batch_most ? f->batch_most : all.batch_most;
        all.batches += f->batches;
    }
    return all;
}

/* Seconds of computing, without the end. */
static double wall(const struct build_result *r)
{
    double sum = 0;
    for (unsigned i = 0; i < 1 << BUILD_STAGES; i++)
        sum += r->wall_of[i];
    return sum;
}

/* With the end. */
static double whole(const struct build_result *r)
{
    return wall(r) + r->finish_seconds;
}

/* Before the first recording was begun: the source, labels, what an earlier run left. */
static double opening(const struct build_result *r)
{
    double seconds = r->seconds - whole(r);
    return seconds > 0 ? seconds : 0;
}

/* Threads that read ahead and locks between threads cost CPU, too, and nobody's split: they are shared out. */
static double file_cpu(const struct build_result *r, const struct build_figures *f)
{
    double told = sum_of(r).file_cpu_seconds;
    double share = r->rows_cpu_seconds > 0 && told > 0 ? r->rows_cpu_seconds / told : 1;
    return f->files ? f->file_cpu_seconds * share / (double)f->files : 0;
}

static double threads_of(const struct build_result *r)
{
    return r->threads ? r->threads : 1;
}

/* Threads that share a stage. */
static double lanes_of(const struct build_result *r, int stage)
{
    return stage == BUILD_WRITE && r->writers ? r->writers : threads_of(r);
}

static double sum_of_stages(const struct build_figures *f)
{
    double sum = 0;
    for (int i = 0; i < BUILD_STAGES; i++)
        sum += f->seconds[i];
    return sum;
}

static double wall_of_stage(const struct build_result *r, int stage, bool is_alone)
{
    double sum = 0;
    for (unsigned i = 0; i < 1 << BUILD_STAGES; i++)
        if (is_alone ? i == 1u << stage : (i >> stage & 1) != 0)
            sum += r->wall_of[i];
    return sum;
}

static double share(double part, double all)
{
    return all > 0 ? 100 * part / all : 0;
}

static double rate(uint64_t n, double seconds)
{
    return seconds > 0 ? (double)n / seconds : 0;
}

/* ---- verdict and remedy ---- */

enum build_stage build_verdict(const struct build_result *r)
{
    struct build_figures all = sum_of(r);
    double most = 0;
    int stage = 0;
    for (int i = 0; i < BUILD_STAGES; i++)
        if (all.seconds[i] / lanes_of(r, i) > most) {
            most = all.seconds[i] / lanes_of(r, i);
            stage = i;
        }
    return r->finish_seconds > most ? BUILD_FINISH : (enum build_stage)stage;
}

/* Threads do one thing at a time, so time saved in a stage is saved, divided by the threads that share it. Threads that only write do so
 * beside the others: what either saves counts as far as the other was not at work. */
static double saved_of(const struct build_result *r, int stage, double seconds)
{
    double saved = seconds / lanes_of(r, stage);
    double most = stage == BUILD_WRITE ? wall_of_stage(r, stage, true) : wall(r) - r->wall_of[0] - wall_of_stage(r, BUILD_WRITE, false);
    return r->writers && saved > most ? most : saved;
}

/* The end is not shared. */
static double gain_of(const struct build_result *r, int stage, double saved_seconds, double saved_at_end)
{
    double now = whole(r), then = now - saved_of(r, stage, saved_seconds) - saved_at_end;
    return then > now / 20 ? now / then : 20;
}

struct advice {
    char text[160];
    double gain;
};

static void consider(struct advice *best, double gain, const char *text)
{
    if (gain <= best->gain)
        return;
    best->gain = gain;
    snprintf(best->text, sizeof(best->text), "%s", text);
}

double build_remedy(const struct build_result *r, const struct build_request *q, char *out, size_t out_size)
{
    struct build_figures all = sum_of(r);
    struct advice best = {"", 1.05}; /* less is not worth a word */
    int cores = host_cores();
    double of_workers = sum_of_stages(&all) - (r->writers ? all.seconds[BUILD_WRITE] : 0);
    double in_memory = 20e-6 * (double)all.files; /* what opening and copying from memory takes */
    if (all.seconds[BUILD_READ] > in_memory)
        consider(&best, gain_of(r, BUILD_READ, all.seconds[BUILD_READ] - in_memory, 0),
                 "read from faster storage: `fullbore stage` copies to a local disk or /dev/shm");
    if (r->threads < (uint32_t)cores)
        consider(&best, gain_of(r, BUILD_COMPUTE, of_workers * (1 - threads_of(r) / cores), 0),
                 "let it use all cores: leave --threads out");
    if (q->is_exact)
        consider(&best, gain_of(r, BUILD_COMPUTE, all.seconds[BUILD_COMPUTE] * 0.45, 0),
                 "leave --exact out: float32 as torch computes, within 1e-4 dB of the loud parts");
    if (q->deflate > 1)
        consider(&best, gain_of(r, BUILD_COMPRESS, all.seconds[BUILD_COMPRESS] * 0.6, 0),
                 "--compress gzip-1: a little larger, much quicker");
    if (q->deflate)
        consider(&best, gain_of(r, BUILD_COMPRESS, all.seconds[BUILD_COMPRESS], 0), "--compress none");
    if (q->dtype == FB_FLOAT32)
        consider(&best, gain_of(r, BUILD_WRITE, all.seconds[BUILD_WRITE] / 2, r->finish_seconds / 2),
                 "--dtype float16: half the bytes to write");
    consider(&best, gain_of(r, BUILD_WRITE, 0, r->finish_seconds * 0.9), "write to a faster disk: the end waits until everything is on it");
    if (build_verdict(r) == BUILD_COMPUTE && r->threads >= (uint32_t)cores)
        consider(&best, gain_of(r, BUILD_COMPUTE, (all.seconds[BUILD_COMPUTE] + all.seconds[BUILD_COMPRESS]) / 2, 0),
                 "twice the cores: the time goes into computing");
    snprintf(out, out_size, "%s", best.text);
    return best.text[0] ? best.gain : 1;
}

static bool has_low_depth(const struct build_result *r)
{
    return build_verdict(r) == BUILD_READ && r->depth_mean < LOW_DEPTH;
}

/* ---- words ---- */

static void put_split(struct text *out, const char *name, const struct build_result *r, const struct build_figures *f)
{
    if (!f->batches)
        return;
    text_show(out, "%-10s %llu files, %llu rows, %llu bad; per task avg %.1f ms, max %.1f ms; per file %.3f ms of CPU\n", name,
              (unsigned long long)f->files, (unsigned long long)f->rows, (unsigned long long)f->bad,
              1e3 * f->batch_seconds / (double)f->batches, 1e3 * f->batch_most, 1e3 * file_cpu(r, f));
    double sum = sum_of_stages(f);
    text_show(out, "%-10s %.2f s of threads in total:", "", sum);
    for (int i = 0, n = 0; i < BUILD_STAGES; i++)
        if (f->seconds[i] > 0)
            text_show(out, "%s %s %.1f %%", n++ ? "," : "", build_stage_names[i], share(f->seconds[i], sum));
    text_show(out, "\n");
}

static void put_stage(struct text *out, const char *name, double of_threads, double of_wall, double alone, const struct build_figures *all,
                      double seconds)
{
    text_show(out, "%-10s %10.1f %% %10.1f %% %10.1f %% %14.0f %14.0f\n", name, of_threads, of_wall, alone, rate(all->files, seconds),
              rate(all->rows, seconds));
}

static void put_stages(struct text *out, const struct build_result *r, const struct build_figures *all)
{
    double now = whole(r), alone = r->finish_seconds, end = share(r->finish_seconds, now);
    text_show(out, "%-10s %12s %12s %12s %14s %14s\n", "stage", "thread time", "of the wall", "alone", "files/s alone", "rows/s alone");
    for (int i = 0; i < BUILD_STAGES; i++) {
        alone += wall_of_stage(r, i, true);
        if (all->seconds[i] > 0)
            put_stage(out, build_stage_names[i], share(all->seconds[i], now * lanes_of(r, i)), share(wall_of_stage(r, i, false), now),
                      share(wall_of_stage(r, i, true), now), all, all->seconds[i] / lanes_of(r, i));
    }
    put_stage(out, build_stage_names[BUILD_FINISH], end / threads_of(r), end, end, all, r->finish_seconds);
    text_show(out, "%-10s %.1f %% of the wall had two or more stages at once, %.1f %% none\n", "overlap",
              share(now - alone - r->wall_of[0], now), share(r->wall_of[0], now));
}

static void put_end(struct text *out, const struct build_result *r, const struct build_request *q)
{
    char remedy[160], bytes[32], payload[32], peak[32];
    double gain = build_remedy(r, q, remedy, sizeof(remedy));
    text_show(out, "%-10s avg %.1f, max %llu recordings asked for at once\n", "queue", r->depth_mean, (unsigned long long)r->depth_most);
    if (has_low_depth(r))
        text_show(out, "LOW QUEUE DEPTH: waiting for storage with few reads under way\n");
    for (int i = 0; i < BUILD_SLOWEST && r->slow[i].key[0]; i++) {
        char shown[300];
        text_show(out, "%-10s %.2f ms %s\n", i ? "" : "slowest", r->slow[i].milliseconds,
                  text_escape(r->slow[i].key, shown, sizeof(shown)));
    }
    text_show(out, "%-10s %s, of it features %s; at the end %.2f s for structure and disk; peak memory %s\n", "file",
              text_size(r->bytes, bytes, sizeof(bytes)), text_size(r->payload, payload, sizeof(payload)), r->finish_seconds,
              text_size(r->memory_peak, peak, sizeof(peak)));
    text_show(out, "%-10s most of the time went into: %s\n", "verdict", build_stage_names[build_verdict(r)]);
    if (remedy[0])
        text_show(out, "%-10s %s (about %.1fx)\n", "remedy", remedy, gain);
}

void build_report_text(const struct build_result *r, const struct build_request *q, struct text *out)
{
    struct build_figures all = sum_of(r);
    char beside[40] = "";
    if (r->writers)
        snprintf(beside, sizeof(beside), " and %u that write", r->writers);
    text_show(out, "%-10s %.2f s on %u threads%s, %.0f files/s, %.0f rows/s; %.2f s of CPU, %.2f s to open\n", "built in", r->seconds,
              r->threads, beside, rate(all.files, r->seconds), rate(all.rows, r->seconds), r->cpu_seconds, opening(r));
    if (r->resumed_rows)
        text_show(out, "%-10s %llu rows were there from before\n", "resumed", (unsigned long long)r->resumed_rows);
    put_split(out, "all", r, &all);
    for (int s = 0; s < r->splits; s++)
        put_split(out, build_split_names[s], r, &r->split[s]);
    put_stages(out, r, &all);
    put_end(out, r, q);
}

/* ---- JSON ---- */

static void json_figures(struct json_writer *w, const char *key, const struct build_result *r, const struct build_figures *f)
{
    char name[64];
    json_begin_object(w, key);
    json_put(w, J("files", f->files), J("rows", f->rows), J("bad_files", f->bad), J("bytes_read", f->bytes_read),
             J_FIXED("task_seconds_mean", 6, f->batches ? f->batch_seconds / (double)f->batches : 0),
             J_FIXED("task_seconds_max", 6, f->batch_most), J_FIXED("file_cpu_seconds_mean", 9, file_cpu(r, f)),
             J_FIXED("total_thread_seconds", 6, sum_of_stages(f)));
    for (int i = 0; i < BUILD_STAGES; i++) {
        snprintf(name, sizeof(name), "%s_thread_seconds", build_stage_names[i]);
        json_put(w, J_FIXED(name, 6, f->seconds[i]));
    }
    json_end(w);
}

static void json_stages(struct json_writer *w, const struct build_result *r)
{
    char alone[64];
    double now = whole(r), end = share(r->finish_seconds, now) / 100;
    json_put(w, J_FIXED("wall_seconds", 6, wall(r)));
    json_begin_object(w, "wall_share");
    for (int i = 0; i < BUILD_STAGES; i++) {
        snprintf(alone, sizeof(alone), "%s_alone", build_stage_names[i]);
        json_put(w, J_FIXED(build_stage_names[i], 6, share(wall_of_stage(r, i, false), now) / 100),
                 J_FIXED(alone, 6, share(wall_of_stage(r, i, true), now) / 100));
    }
    json_put(w, J_FIXED("finish", 6, end), J_FIXED("finish_alone", 6, end));
    json_end(w);
}

static void json_slow(struct json_writer *w, const struct build_result *r)
{
    json_begin_array(w, "slowest");
    for (int i = 0; i < BUILD_SLOWEST && r->slow[i].key[0]; i++)
        json_put(w, J_OBJECT(NULL, J("key", r->slow[i].key), J_FIXED("milliseconds", 3, r->slow[i].milliseconds)));
    json_end(w);
}

static void json_output(struct json_writer *w, const struct build_result *r, const struct build_request *q)
{
    json_put(w, J("output", q->output), J("files", r->files), J("rows", r->rows), J("left_out_files", r->skipped),
             J("resumed_rows", r->resumed_rows));
    json_begin_array(w, "shape");
    for (int i = 0; i < r->ndim; i++)
        json_put(w, J(NULL, r->shape[i]));
    json_end(w);
    json_put(w, J("dtype", fb_dtype_name(q->dtype)), J("rate", r->rate), J("chunk_rows", r->chunk_rows), J("file_bytes", r->bytes),
             J("payload_bytes", r->payload), J_HEX("checksum", r->checksum));
}

void build_report_json(const struct build_result *r, const struct build_request *q, struct text *out)
{
    char remedy[160];
    struct json_writer w = {.out = out};
    struct build_figures all = sum_of(r);
    double gain = build_remedy(r, q, remedy, sizeof(remedy));
    json_begin_object(&w, NULL);
    json_output(&w, r, q);
    json_put(&w, J_FIXED("seconds", 6, r->seconds), J_FIXED("opening_seconds", 6, opening(r)),
             J_FIXED("finish_seconds", 6, r->finish_seconds), J_FIXED("cpu_seconds", 6, r->cpu_seconds), J("threads", r->threads),
             J("writers", r->writers), J("memory_peak_bytes", r->memory_peak), J_FIXED("files_per_s", 1, rate(all.files, r->seconds)),
             J_FIXED("rows_per_s", 1, rate(all.rows, r->seconds)));
    json_figures(&w, "all", r, &all);
    json_begin_object(&w, "splits");
    for (int s = 0; s < r->splits; s++)
        json_figures(&w, build_split_names[s], r, &r->split[s]);
    json_end(&w);
    json_stages(&w, r);
    json_put(&w, J_FIXED("queue_depth_mean", 2, r->depth_mean), J("queue_depth_max", r->depth_most),
             J_BOOL("is_queue_depth_low", has_low_depth(r)));
    json_slow(&w, r);
    json_put(&w, J("verdict", build_stage_names[build_verdict(r)]), J("remedy", remedy), J_FIXED("predicted_gain", 2, gain));
    json_end(&w);
}
