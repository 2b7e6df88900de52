/* The scheduler counts exactly how long the consumer ran and waited; a look says what it was doing, and whether it ran or what it waited
 * for. So each exact time is split by the looks of its own kind: a loop that waits in next() and computes in its step is not told that
 * next() computes, however short its steps are. A kind of which this interval has no look is split as it was in the intervals before.
 */
#include "host/proc/proc_activity.h"

#include <string.h>

static const double weight_before = 1e-3, ageing = 0.8;

void activity_add(struct activity_looks *l, const struct proc_thread *consumer, enum wait_kind kind, double wall_ns)
{
    l->all += wall_ns;
    if (!consumer->stack_known)
        return;
    int what = consumer->stack_empty ? ACTIVITIES : (int)consumer->activity;
    l->known += wall_ns;
    l->validating += consumer->is_validating ? wall_ns : 0;
    if (consumer->is_blocked)
        l->blocked[kind][what] += wall_ns;
    else
        l->running[what] += wall_ns;
}

/* Shares that add up to 1. False: nothing was ever seen. */
static bool shares_from(const double now[LOOK_KINDS], const double before[LOOK_KINDS], double share[LOOK_KINDS])
{
    double sum = 0;
    for (int a = 0; a < LOOK_KINDS; a++)
        sum += share[a] = now[a] + weight_before * before[a];
    for (int a = 0; a < LOOK_KINDS && sum > 0; a++)
        share[a] /= sum;
    return sum > 0;
}

/* All looks together, for times of a kind that no look ever met. */
static void add_all(const struct activity_looks *l, double sum[LOOK_KINDS])
{
    for (int a = 0; a < LOOK_KINDS; a++) {
        sum[a] = l->running[a];
        for (int k = 0; k < WAIT_KINDS; k++)
            sum[a] += l->blocked[k][a];
    }
}

static void grow_old(struct activity_looks *now, struct activity_looks *before)
{
    double *x = (double *)before;
    const double *y = (const double *)now;
    for (size_t i = 0; i < sizeof(*now) / sizeof(double); i++)
        x[i] = ageing * x[i] + y[i];
    memset(now, 0, sizeof(*now));
}

void activity_split(struct activity_looks *now, struct activity_looks *before, struct snapshot *s)
{
    const struct role_figures *c = &s->role[ROLE_CONSUMER];
    static const double nothing[LOOK_KINDS];
    double all_looks[LOOK_KINDS], overall[LOOK_KINDS], share[LOOK_KINDS], total = c->cpu_ns + c->delay_ns;
    memset(s->doing, 0, sizeof(s->doing));
    s->stack_known = now->all > 0 ? now->known / now->all : 0;
    s->validation_ns = 0;
    add_all(now, all_looks);
    if (now->known > 0 && shares_from(all_looks, nothing, overall)) {
        const double *part = shares_from(now->running, before->running, share) ? share : overall;
        for (int a = 0; a < ACTIVITIES; a++) {
            s->doing[a].cpu_ns = c->cpu_ns * part[a];
            s->doing[a].delay_ns = c->delay_ns * part[a];
        }
        for (int k = 0; k < WAIT_KINDS; k++) {
            part = shares_from(now->blocked[k], before->blocked[k], share) ? share : overall;
            for (int a = 0; a < ACTIVITIES; a++)
                s->doing[a].off_ns[k] = c->off_ns[k] * part[a];
            total += c->off_ns[k];
        }
        s->validation_ns = total * now->validating / now->known;
    }
    grow_old(now, before);
}
