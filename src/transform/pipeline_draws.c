/* The random draws of a sample: stored as numbers beside it; each step knows how to show its own. */
#include <string.h>

#include "transform/pipeline_internal.h"

enum { SEEN_NUMBERS = 4 };

static uint32_t numbers_of(const struct pipeline *p)
{
    uint32_t count = 0;
    for (int i = 0; i < p->step_count; i++)
        count += p->step[i].ops->show ? STEP_VALUES : 0;
    return count;
}

uint32_t pipeline_draw_numbers(struct pipeline *const *part, int count)
{
    uint32_t numbers = SEEN_NUMBERS;
    for (int i = 0; i < count; i++)
        numbers += numbers_of(part[i]);
    return numbers;
}

void pipeline_keep_draws(struct pipeline *const *part, int which, const struct plan *plan, double *record)
{
    if (which == 0) {
        const double seen[SEEN_NUMBERS] = {plan->seen.top, plan->seen.left, plan->seen.height, plan->seen.width};
        memcpy(record, seen, sizeof(seen));
    }
    double *to = record + pipeline_draw_numbers(part, which);
    for (int i = 0; i < part[which]->step_count; i++)
        if (part[which]->step[i].ops->show) {
            memcpy(to, plan->step[i].value, sizeof(plan->step[i].value));
            to += STEP_VALUES;
        }
}

void pipeline_show_draws(struct pipeline *const *part, int count, const double *record, struct json_writer *w)
{
    const struct step *step[SHOWN_MAX];
    const double *value[SHOWN_MAX];
    int n = 0;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < part[i]->step_count && n < SHOWN_MAX; k++)
            if (part[i]->step[k].ops->show) {
                value[n] = record + SEEN_NUMBERS + (size_t)n * STEP_VALUES;
                step[n++] = &part[i]->step[k];
            }
    json_put(w, J("top", (uint32_t)record[0]), J("left", (uint32_t)record[1]), J("height", (uint32_t)record[2]),
             J("width", (uint32_t)record[3]));
    step_list_show(step, value, n, 1, w);
}
