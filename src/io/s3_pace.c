#include "io/s3_pace.h"

enum {
    START_WINDOW = 32,
    REQUEST_WORK = 32 << 10, /* a request weighs as much as these bytes */
    START_ROUND_NS = 15000000,
    STEADY_ROUND_NS = 100000000,
    BACK_OFF_NS = 500000000,
    REST_ROUNDS = 6,
    MOST_REST_ROUNDS = 96
};

void s3_pace_open(struct s3_pace *p, uint32_t most, uint32_t fixed)
{
    uint32_t start = most < START_WINDOW ? most : START_WINDOW;
    *p = (struct s3_pace){.window = fixed ? fixed : start, .most = most, .is_fixed = fixed > 0, .rest = REST_ROUNDS};
}

uint32_t s3_pace_window(const struct s3_pace *p)
{
    return p->window < 1 ? 1 : (uint32_t)p->window;
}

static void set_window(struct s3_pace *p, double window)
{
    p->window = window < 1 ? 1 : window > p->most ? p->most : window;
}

static void start_round(struct s3_pace *p, uint64_t now_ns)
{
    p->round_ns = now_ns;
    p->answers = p->not_full = 0;
    p->work = 0;
}

static void end_start(struct s3_pace *p, double rate)
{
    bool has_grown = p->window >= 1.5 * p->base_window;
    if (p->base_rate > 0 && has_grown && rate < 1.1 * p->base_rate) {
        set_window(p, 1.25 * p->base_window);
        p->phase = S3_PACE_STEADY;
    } else if (p->window >= p->most) {
        p->phase = S3_PACE_STEADY;
    }
    p->base_rate = rate;
    p->base_window = p->window;
}

/* Trying is done less and less often while it does not pay. */
static void end_try(struct s3_pace *p, double rate)
{
    bool pays = p->phase == S3_PACE_UP ? rate > 1.04 * p->base_rate : rate >= 0.995 * p->base_rate;
    p->phase = S3_PACE_STEADY;
    p->rested = 0;
    p->rest = pays ? REST_ROUNDS : 2 * p->rest < MOST_REST_ROUNDS ? 2 * p->rest : MOST_REST_ROUNDS;
    if (pays)
        p->base_rate = rate;
    else
        set_window(p, p->base_window);
}

static void end_steady(struct s3_pace *p, double rate)
{
    p->base_rate = p->base_rate > 0 ? 0.7 * p->base_rate + 0.3 * rate : rate;
    p->base_window = p->window;
    if (++p->rested < p->rest)
        return;
    bool is_up = p->tries++ % 2 == 0 && p->window < p->most;
    p->phase = is_up ? S3_PACE_UP : S3_PACE_DOWN;
    set_window(p, p->window * (is_up ? 1.25 : 0.86));
}

static void end_round(struct s3_pace *p, uint64_t now_ns)
{
    double rate = p->work / (double)(now_ns - p->round_ns);
    bool is_telling = p->not_full * 4 < p->answers;
    start_round(p, now_ns);
    if (!is_telling) {
        if (p->phase == S3_PACE_UP || p->phase == S3_PACE_DOWN) {
            set_window(p, p->base_window);
            p->phase = S3_PACE_STEADY;
        }
        return;
    }
    if (p->phase == S3_PACE_START)
        end_start(p, rate);
    else if (p->phase == S3_PACE_STEADY)
        end_steady(p, rate);
    else
        end_try(p, rate);
}

void s3_pace_answer(struct s3_pace *p, uint64_t bytes, bool is_full, uint64_t now_ns)
{
    if (p->is_fixed)
        return;
    if (p->round_ns == 0)
        start_round(p, now_ns);
    p->answers++;
    p->not_full += !is_full;
    p->work += (double)bytes + REQUEST_WORK;
    if (p->ceiling > 0 && p->window < p->ceiling)
        set_window(p, p->window + 1 / p->window);
    else if (p->phase == S3_PACE_START && is_full)
        set_window(p, p->window + 1);
    bool is_start = p->phase == S3_PACE_START;
    double wanted = (is_start ? 1 : 4) * p->window;
    if ((double)p->answers >= wanted && now_ns - p->round_ns >= (is_start ? START_ROUND_NS : STEADY_ROUND_NS))
        end_round(p, now_ns);
}

void s3_pace_back_off(struct s3_pace *p, uint64_t now_ns)
{
    if (p->is_fixed || (p->backed_off_ns && now_ns - p->backed_off_ns < BACK_OFF_NS))
        return;
    p->backed_off_ns = now_ns;
    p->ceiling = 0.9 * p->window;
    set_window(p, p->window / 2);
    p->phase = S3_PACE_STEADY;
    p->base_rate = 0;
    p->rested = 0;
    start_round(p, now_ns);
}
