/* On a terminal the line lives in the last row, outside the scrolling region, so the child's own output (bars included) scrolls above it
 * untouched. If a write fails, the terminal is gone: nothing is drawn any more, and watching goes on.
 */
#include "base/file/file.h"
#include "monitor/live_line.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const double recent_s = 10;

static double recent_rate(const struct series *s, double seconds, double (*of)(const struct snapshot *))
{
    double sum = 0, wall = 0;
    for (int i = s->count - 1; i >= 0 && wall < seconds; i--) {
        sum += of(&s->row[i]);
        wall += s->row[i].wall_s;
    }
    return wall > 0 ? sum / wall : NAN;
}

static double disk_of(const struct snapshot *r)
{
    return r->disk_read_bytes + r->disk_write_bytes;
}

static void put_pair(struct text *t, const char *name, double used, double total)
{
    if (used >= 0 && total > 0)
        text_printf(t, " | %s:%.1f/%.1fGB(%.1f%%)", name, used / 1e9, total / 1e9, 100 * used / total);
}

void watch_line_row(const struct snapshot *r, const struct verdict *v, struct text *t)
{
    text_printf(t, isnan(r->gpu_ratio) ? "GPU: n/a" : "GPU: %.0f%%", 100 * r->gpu_ratio);
    put_pair(t, "VRAM", r->gpu_memory_bytes, r->gpu_memory_total_bytes);
    if (!isnan(r->cpu_ratio))
        text_printf(t, " | CPU: %.1f%%", 100 * r->cpu_ratio);
    bool has_limit = r->memory_limit_bytes < r->memory_total_bytes;
    put_pair(t, "RAM", has_limit ? r->memory_group_bytes : r->memory_used_bytes, has_limit ? r->memory_limit_bytes : r->memory_total_bytes);
    if (!isnan(r->gpu_power_w))
        text_printf(t, " | %.0fW", r->gpu_power_w);
    double disk = r->wall_s > 0 ? disk_of(r) / r->wall_s : NAN;
    if (!isnan(disk))
        text_printf(t, " | disk %.0fMB/s", disk / 1e6);
    if (v->kind == VERDICT_STARTUP || v->kind == VERDICT_UNKNOWN)
        text_printf(t, " | %s", verdict_short(v->kind));
    else if (v->lost_ratio < 0.05)
        text_printf(t, " | starved %.0f%%", 100 * v->starved_ratio);
    else
        text_printf(t, " | starved %.0f%%: %s", 100 * v->lost_ratio, verdict_short(v->kind));
}

/* The disk's rate jumps from row to row: it is that of two seconds. */
void watch_line_text(const struct series *s, const struct run_facts *facts, struct text *t)
{
    if (!s->count)
        return;
    struct snapshot row = s->row[s->count - 1];
    struct verdict v;
    diagnose_recent(s, facts, recent_s, &v);
    double disk = recent_rate(s, 2, disk_of);
    row.disk_read_bytes = disk * row.wall_s;
    row.disk_write_bytes = 0;
    watch_line_row(&row, &v, t);
}

/* ---- the terminal ---- */

static void write_all(struct watch_line *l, const char *bytes, size_t n)
{
    l->is_broken = l->is_broken || file_write_all(STDERR_FILENO, bytes, n, NULL) < 0;
}

static void set_region(struct watch_line *l)
{
    char codes[64];
    int n = snprintf(codes, sizeof(codes),
                     "\n\x1b[A\x1b"
                     "7\x1b[1;%dr\x1b"
                     "8",
                     l->rows - 1);
    write_all(l, codes, (size_t)n);
    l->has_region = true;
}

static void measure(struct watch_line *l)
{
    struct winsize w;
    l->rows = l->columns = 0;
    if (l->is_terminal && ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0) {
        l->rows = w.ws_row;
        l->columns = w.ws_col;
    }
}

void watch_line_open(struct watch_line *l, double every_s)
{
    *l = (struct watch_line){.is_terminal = isatty(STDERR_FILENO), .every_s = every_s > 0 ? every_s : 10};
    measure(l);
    if (l->rows < 4 || l->columns < 20)
        l->is_terminal = false;
    else
        set_region(l);
}

void watch_line_resize(struct watch_line *l)
{
    if (!l->is_terminal)
        return;
    measure(l);
    if (l->rows >= 4)
        set_region(l);
}

static void draw(struct watch_line *l, const char *line)
{
    struct text t = {.limit = 4096};
    text_printf(&t,
                "\x1b"
                "7\x1b[%d;1H\x1b[2K\x1b[2m%.*s\x1b[0m\x1b"
                "8",
                l->rows, l->columns - 1, line);
    if (t.data)
        write_all(l, t.data, t.length);
    text_free(&t);
}

void watch_line_show(struct watch_line *l, double now_s, const struct series *s, const struct run_facts *facts)
{
    if (l->is_broken || (!l->is_terminal && now_s - l->last_s < l->every_s))
        return;
    struct text t = {.limit = 4096};
    l->last_s = now_s;
    watch_line_text(s, facts, &t);
    if (t.data && l->is_terminal)
        draw(l, t.data);
    else if (t.data) {
        text_printf(&t, "\n");
        write_all(l, t.data, t.length);
    }
    text_free(&t);
}

void watch_line_close(struct watch_line *l)
{
    char codes[64];
    if (!l->has_region)
        return;
    int n = snprintf(codes, sizeof(codes),
                     "\x1b"
                     "7\x1b[r\x1b[%d;1H\x1b[2K\x1b"
                     "8",
                     l->rows);
    write_all(l, codes, (size_t)n);
    l->has_region = false;
}
