#include "io/s3/loop/s3_pace.h"

enum {
    START_WINDOW = 16,
    START_PER_MS = 8,        /* a server far away is taken for one that gives so many answers per millisecond until it is known */
    REQUEST_WORK = 32 << 10, /* a request weighs as much as these bytes */
    FAR_NS = 10000000,       /* nearer than this, doubling takes no time worth a guess */
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

uint32_t s3_pace_cost(uint64_t bytes)
{
    return bytes > UINT32_MAX ? 1 : 1 + (uint32_t)(bytes >> 21); /* a length that is not known is none */
}

static void set_window(struct s3_pace *p, double window)
{
    p->window = window < 1 ? 1 : window > p->most ? p->most : window;
}

static void start_round(struct s3_pace *p, uint64_t now_ns)
{
    p->round_ns = now_ns;
    p->round_window = p->window;
    p->answers = p->not_full = 0;
    p->work = p->wait_ns = 0;
}

/* The first answer tells how far away the server is. To double from START_WINDOW to what a server at 30 ms wants would take four round
 * trips, each of them twice as long as later ones, since connections are made: a fifth of a second in which little comes. */
static void reach(struct s3_pace *p, uint64_t first_byte_ns)
{
    double wanted = (double)first_byte_ns / 1e6 * START_PER_MS;
    if (first_byte_ns >= FAR_NS && wanted > p->window)
        set_window(p, wanted);
}

/* The window has about doubled since the round began. If there was room, the rate has doubled, too, and answers come as soon as before; if
 * not, the rate is the same and they come twice as late. Either figure alone is noisy over so short a time. */
static void end_start(struct s3_pace *p, double rate, double wait_ns, double began_with)
{
    bool is_first = p->base_rate <= 0;
    if (!is_first && rate / p->base_rate < wait_ns / p->base_wait_ns) {
        set_window(p, began_with);
        p->phase = S3_PACE_STEADY;
    } else if (p->window >= p->most) {
        p->phase = S3_PACE_STEADY;
    }
    p->base_rate = rate;
    p->base_wait_ns = is_first || wait_ns < p->base_wait_ns ? wait_ns : p->base_wait_ns;
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
    double began_with = p->round_window, wait_ns = p->wait_ns / (double)p->answers + 1;
    start_round(p, now_ns);
    if (!is_telling) {
        if (p->phase == S3_PACE_UP || p->phase == S3_PACE_DOWN) {
            set_window(p, p->base_window);
            p->phase = S3_PACE_STEADY;
        }
        return;
    }
    if (p->phase == S3_PACE_START)
        end_start(p, rate, wait_ns, began_with);
    else if (p->phase == S3_PACE_STEADY)
        end_steady(p, rate);
    else
        end_try(p, rate);
}

void s3_pace_answer(struct s3_pace *p, uint64_t bytes, uint64_t first_byte_ns, bool is_full, uint64_t now_ns)
{
    if (p->is_fixed)
        return;
    if (p->round_ns == 0) {
        if (is_full && p->phase == S3_PACE_START && s3_pace_cost(bytes) == 1) /* large ones wait for each other's bytes */
            reach(p, first_byte_ns);
        start_round(p, now_ns);
    }
    uint32_t cost = s3_pace_cost(bytes);
    p->nearest_ns = p->nearest_ns && p->nearest_ns < first_byte_ns ? p->nearest_ns : first_byte_ns;
    p->answers += cost;
    p->not_full += is_full ? 0 : cost;
    p->work += (double)bytes + REQUEST_WORK;
    p->wait_ns += (double)first_byte_ns * cost;
    if (p->ceiling > 0 && p->window < p->ceiling)
        set_window(p, p->window + cost / p->window);
    else if (p->phase == S3_PACE_START && is_full)
        set_window(p, p->window + (p->nearest_ns < FAR_NS ? 1 : cost));
    bool is_start = p->phase == S3_PACE_START;
    double wanted = (is_start ? 1 : 4) * p->round_window;
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
