#include "monitor/loop_marks.h"

#include <stdlib.h>
#include <string.h>

#include "base/compare.h"

/* ---- while it runs ---- */

static int find_loop(struct loop_marks *l, const struct mark *m)
{
    for (int i = 0; i < l->loops; i++)
        if (l->loop[i].pid == m->pid && l->loop[i].loop == m->loop)
            return i;
    if (l->loops == LOOPS_MOST)
        return -1;
    l->loop[l->loops].pid = m->pid;
    l->loop[l->loops].loop = m->loop;
    l->loop[l->loops].last_ns = 0;
    return l->loops++;
}

void loop_marks_add(struct loop_marks *l, const struct mark *m, int count)
{
    for (int i = 0; i < count; i++) {
        int k = find_loop(l, &m[i]);
        if (k < 0)
            continue;
        uint64_t last = l->loop[k].last_ns;
        if (m[i].kind == MARK_BATCH) {
            bool is_step = last && m[i].at_ns > last;
            double wall = is_step ? (double)(m[i].at_ns - last) : (double)m[i].wait_ns;
            l->wall_ns += wall;
            l->wait_ns += fmin(wall, (double)m[i].wait_ns);
            l->wait_cpu_ns += fmin(wall, (double)m[i].wait_cpu_ns);
            l->step_ns += is_step ? wall : 0;
            l->steps += is_step;
            l->batches++;
        }
        l->epochs += m[i].kind == MARK_EPOCH;
        l->loop[k].last_ns = m[i].kind == MARK_BATCH ? m[i].at_ns : 0;
    }
}

void loop_marks_take(struct loop_marks *l, struct snapshot *row)
{
    if (!l->loops)
        return;
    row->loop_wall_ns = l->wall_ns;
    row->loop_wait_ns = l->wait_ns;
    row->loop_wait_cpu_ns = l->wait_cpu_ns;
    row->loop_batches = l->batches;
    row->loop_epochs = l->epochs;
    row->loop_steps = l->steps;
    row->loop_step_ns = l->step_ns;
    l->wall_ns = l->wait_ns = l->wait_cpu_ns = l->batches = l->epochs = l->steps = l->step_ns = 0;
}

/* ---- afterwards ---- */

static uint64_t key_of(const struct mark *m)
{
    return (uint64_t)m->pid << 16 | m->loop;
}

/* The loop that trains: the one with the most batches; validation has fewer. */
static uint64_t main_loop(const struct mark *m, uint64_t count)
{
    struct {
        uint64_t key, batches;
    } seen[LOOPS_MOST];
    int n = 0, best = 0;
    for (uint64_t i = 0; i < count; i++) {
        int k = 0;
        while (k < n && seen[k].key != key_of(&m[i]))
            k++;
        if (k == LOOPS_MOST)
            continue;
        if (k == n) {
            seen[n].key = key_of(&m[i]);
            seen[n++].batches = 0;
        }
        seen[k].batches += m[i].kind == MARK_BATCH;
        best = seen[k].batches > seen[best].batches ? k : best;
    }
    return n ? seen[best].key : 0;
}

struct walk {
    bool has_begun;                             /* an epoch: batches before it belong to one that nobody saw begin */
    uint64_t first_ns, last_ns, batches, total; /* of the epoch, and of the run */
    uint64_t ended_ns;                          /* last batch of the epoch before */
    double gaps, gap_sum, gap_most, wall_ns, wait_ns;
    double *step;
    uint64_t steps;
};

static void end_epoch(struct walk *w, struct loop_summary *out)
{
    if (!w->batches)
        return;
    if (out->epochs < LOOP_EPOCHS)
        out->rate[out->epochs] = w->last_ns > w->first_ns ? (double)(w->batches - 1) / ((double)(w->last_ns - w->first_ns) / 1e9) : NAN;
    out->epochs++;
    w->ended_ns = w->last_ns;
    w->batches = 0;
}

static void take_batch(struct walk *w, const struct mark *m)
{
    double wall = !w->batches ? (double)m->wait_ns : m->at_ns > w->last_ns ? (double)(m->at_ns - w->last_ns) : 0;
    if (w->batches) {
        w->step[w->steps++] = wall / 1e9;
    } else if (w->ended_ns && m->at_ns > w->ended_ns) {
        double gap = (double)(m->at_ns - w->ended_ns) / 1e9;
        w->gaps++;
        w->gap_sum += gap;
        w->gap_most = fmax(w->gap_most, gap);
    }
    w->first_ns = w->batches ? w->first_ns : m->at_ns;
    w->wall_ns += wall;
    w->wait_ns += fmin(wall, (double)m->wait_ns);
    w->last_ns = m->at_ns;
    w->batches++;
    w->total++;
}

static void sum_up(struct walk *w, struct loop_summary *out)
{
    double mean = 0, square = 0;
    for (uint64_t i = 0; i < w->steps; i++)
        mean += w->step[i] / (double)w->steps;
    for (uint64_t i = 0; i < w->steps; i++)
        square += (w->step[i] - mean) * (w->step[i] - mean) / (double)w->steps;
    qsort(w->step, w->steps, sizeof(double), compare_double);
    bool has = w->steps > 0;
    out->batches = w->total;
    out->step_mean_s = has ? mean : NAN;
    out->step_p50_s = has ? w->step[w->steps / 2] : NAN;
    out->step_p99_s = has ? w->step[(uint64_t)(0.99 * (double)(w->steps - 1))] : NAN;
    out->step_variation = has && mean > 0 ? sqrt(square) / mean : NAN;
    out->gap_mean_s = w->gaps > 0 ? w->gap_sum / w->gaps : NAN;
    out->gap_most_s = w->gaps > 0 ? w->gap_most : NAN;
    out->wait_ratio = w->wall_ns > 0 ? w->wait_ns / w->wall_ns : NAN;
}

bool loop_summarise(const struct mark *m, uint64_t count, struct loop_summary *out)
{
    *out = (struct loop_summary){0};
    struct walk w = {.step = count ? malloc(count * sizeof(double)) : NULL};
    if (!w.step)
        return false;
    uint64_t key = main_loop(m, count);
    for (uint64_t i = 0; i < count; i++) {
        if (key_of(&m[i]) != key)
            continue;
        if (m[i].kind == MARK_BATCH && w.has_begun)
            take_batch(&w, &m[i]);
        else if (m[i].kind == MARK_END || m[i].kind == MARK_EPOCH)
            end_epoch(&w, out);
        w.has_begun |= m[i].kind == MARK_EPOCH;
    }
    end_epoch(&w, out);
    sum_up(&w, out);
    free(w.step);
    return w.total > 0;
}
