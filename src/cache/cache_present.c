#include "cache/cache_present.h"

#include <stdlib.h>

#include "base/compare.h"
#include "cache/cache_internal.h"

uint64_t present_bytes(uint64_t count)
{
    return (count / 64 + (count % 64 != 0)) * sizeof(uint64_t);
}

bool present_open(struct present *p, struct budget *b, uint64_t count)
{
    uint64_t bytes = present_bytes(count);
    if (!count || !budget_take(b, MEMORY_CACHE, bytes))
        return false;
    p->count = count;
    p->word = calloc(bytes, 1); /* pages that are never touched cost nothing */
    if (!p->word)
        budget_give(b, MEMORY_CACHE, bytes);
    return p->word != NULL;
}

void present_close(struct present *p, struct budget *b)
{
    if (!p->word)
        return;
    free((void *)p->word);
    p->word = NULL;
    budget_give(b, MEMORY_CACHE, present_bytes(p->count));
}

/* ---- what lies in the folder ---- */

static bool grow(struct stock_list *s)
{
    uint64_t capacity = s->capacity ? 2 * s->capacity : 4096, more = (capacity - s->capacity) * sizeof(*s->hash);
    if (!budget_take(s->budget, MEMORY_CACHE, more))
        return false;
    uint64_t *larger = realloc(s->hash, capacity * sizeof(*larger));
    if (!larger) {
        budget_give(s->budget, MEMORY_CACHE, more);
        return false;
    }
    s->hash = larger;
    s->capacity = capacity;
    return true;
}

static bool note_entry(void *ctx, int place_fd, const char *name, uint64_t hash, bool is_part)
{
    struct stock_list *s = ctx;
    (void)place_fd;
    (void)name;
    if (is_part)
        return true;
    if (s->count == s->capacity && !grow(s))
        return false;
    s->hash[s->count++] = hash;
    return true;
}

void stock_list_make(struct stock_list *s, struct cache *c)
{
    *s = (struct stock_list){.budget = c->budget};
    dir_walk(c->dir.place_fd, note_entry, s);
    if (s->count)
        qsort(s->hash, s->count, sizeof(*s->hash), compare_u64);
}

uint64_t stock_list_find(const struct stock_list *s, uint64_t hash)
{
    const uint64_t *at = s->count ? bsearch(&hash, s->hash, s->count, sizeof(hash), compare_u64) : NULL;
    return at ? (uint64_t)(at - s->hash) : s->count;
}

void stock_list_free(struct stock_list *s)
{
    if (s->capacity)
        budget_give(s->budget, MEMORY_CACHE, s->capacity * sizeof(*s->hash));
    free(s->hash);
    *s = (struct stock_list){0};
}

static bool is_closing(struct cache *c)
{
    pthread_mutex_lock(&c->lock);
    bool closing = c->is_closing;
    pthread_mutex_unlock(&c->lock);
    return closing;
}

void present_find(struct cache *c)
{
    struct stock_list s;
    struct cache_unit u;
    if (c->source.count > CACHE_LOOK_MOST)
        return;
    stock_list_make(&s, c);
    for (uint64_t i = 0; s.count && i < c->source.count; i++) {
        if (i % 4096 == 0 && is_closing(c))
            break;
        if (c->source.unit_at(c->source.ctx, i, &u) && stock_list_find(&s, cache_hash(c, &u)) < s.count)
            present_put(&c->present, i);
    }
    stock_list_free(&s);
}
