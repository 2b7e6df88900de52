#include "io/s3/keys/s3_credentials.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "io/s3/keys/s3_profile.h"

enum { REFRESH_BEFORE_S = 300 }; /* of expiry; half of the life that is left if they live shorter */
static const uint64_t thread_ends_ns = 100000000, again_after_ns = 15000000000;

/* ---- sources without a server ---- */

static int bad_keys(const char *where, struct fb_error *e)
{
    error_set(e, FB_E_USAGE, "read", "the keys in %s are not usable: empty, too long, or with characters that keys do not have", where);
    error_remedy(e, "check them for spaces, quotes and line ends");
    return FB_E_USAGE;
}

static int from_environment(const struct s3_asking *a, struct s3_keys *out, struct fb_error *e)
{
    (void)a;
    const char *access = getenv("AWS_ACCESS_KEY_ID"), *secret = getenv("AWS_SECRET_ACCESS_KEY"), *token = getenv("AWS_SESSION_TOKEN");
    if (!access || !*access || !secret || !*secret)
        return 0;
    return s3_keys_set(out, access, secret, token ? token : "") ? 1 : bad_keys("the environment", e);
}

/* The keys of one section. `work` is secret memory. */
static int from_section(const char *text, size_t n, const char *section, struct s3_keys *work, struct s3_keys *out, struct fb_error *e)
{
    char *token = work->token_header;
    if (!s3_profile_find(text, n, section, "aws_access_key_id", work->access_key, sizeof(work->access_key)) ||
        !s3_profile_find(text, n, section, "aws_secret_access_key", work->secret_key, sizeof(work->secret_key)))
        return 0;
    if (!s3_profile_find(text, n, section, "aws_session_token", token, S3_TOKEN_BYTES))
        token[0] = 0;
    return s3_keys_set(out, work->access_key, work->secret_key, token) ? 1 : bad_keys("the profile files", e);
}

static int from_file(const char *path, const char *section, struct s3_keys *out, struct fb_error *e)
{
    size_t n, mapped;
    char *text = path[0] ? s3_secret_read_file(path, &n, &mapped) : NULL;
    struct s3_keys *work = text ? s3_secret_map(sizeof(*work)) : NULL;
    int rc = work ? from_section(text, n, section, work, out, e) : 0;
    s3_secret_unmap(work, sizeof(*work));
    if (text)
        s3_secret_unmap(text, mapped);
    return rc;
}

static int from_profile(const struct s3_asking *a, struct s3_keys *out, struct fb_error *e)
{
    (void)a;
    char config[4096], credentials[4096], section[256];
    if (!s3_profile_paths(config, credentials, sizeof(config)))
        return 0;
    int rc = from_file(credentials, s3_profile_name(), out, e);
    if (rc != 0)
        return rc;
    s3_profile_config_section(section, sizeof(section));
    return from_file(config, section, out, e);
}

const struct s3_key_source s3_key_sources[] = {
    {"the environment", from_environment},     {"the profile files", from_profile},     {"the web identity", s3_keys_from_web_identity},
    {"the container", s3_keys_from_container}, {"the instance", s3_keys_from_instance}, {0},
};

/* ---- the chain ---- */

enum refresh_state { REFRESH_IDLE, REFRESH_RUNNING, REFRESH_READY, REFRESH_FAILED };

struct s3_credentials {
    struct s3_place place; /* a copy: the loop's may move to another region */
    struct log log;
    const struct s3_key_source *source;
    struct s3_keys *keys, *next; /* secret memory */
    bool is_refused;             /* the server does not take `keys` any more */
    bool came_expired;           /* by our clock, which may be wrong: whether `keys` are any good is the server's to say */
    int64_t fetched_s;
    uint64_t again_ns; /* the source is not asked before; on the steady clock, for the other one may be set right meanwhile */
    void (*wake)(void *ctx);
    void *wake_ctx;

    pthread_t thread;
    bool has_thread;
    _Atomic bool is_closing;
    _Atomic enum refresh_state state; /* READY and FAILED are set by the thread with release order, after it wrote `next` and `why` */
    struct fb_error why;
};

static int nobody_has_any(struct fb_error *e)
{
    char setting[256];
    error_set(e, FB_E_NOT_FOUND, "read",
              "there are no credentials: neither in the environment, the profile files (profile '%s'), a web "
              "identity, a container nor the instance's metadata",
              s3_profile_name());
    static const char *const others[] = {"credential_process", "sso_session", "sso_start_url", "source_profile"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (s3_profile_setting(others[i], setting, sizeof(setting))) {
            error_remedy(e, "the profile uses %s: run 'eval \"$(aws configure export-credentials --format env)\"' first", others[i]);
            return FB_E_NOT_FOUND;
        }
    error_remedy(e, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE; for a public bucket FULLBORE_S3_ANONYMOUS=1");
    return FB_E_NOT_FOUND;
}

/* Keys that have expired before they came: a source that sleeps, or a clock that is ahead. They are tried; should the server refuse them,
 * `why` is said rather than the source asked over and over. */
static void note_fetched(struct s3_credentials *c, int64_t now_s)
{
    bool was_known = c->came_expired;
    c->fetched_s = now_s;
    c->came_expired = c->keys->expires_s != 0 && now_s >= c->keys->expires_s;
    if (!c->came_expired)
        return;
    c->again_ns = clock_now_ns() + again_after_ns;
    error_clear(&c->why);
    error_set(&c->why, FB_E_IO, "read", "the session token has expired: %s hands out keys that expired %lld s ago", c->source->name,
              (long long)(now_s - c->keys->expires_s));
    error_remedy(&c->why, "check this machine's clock, and the service that hands out the keys");
    if (!was_known)
        log_line(&c->log, LOG_WARN, "S3: the keys from %s have expired by this machine's clock; they are tried anyway", c->source->name);
}

static int fetch_first(struct s3_credentials *c, struct fb_error *e)
{
    struct s3_asking a = {&c->place, &c->is_closing};
    for (const struct s3_key_source *s = s3_key_sources; s->name; s++) {
        int rc = s->fetch(&a, c->keys, e);
        if (rc < 0)
            return rc;
        if (rc == 0)
            continue;
        c->source = s;
        c->keys->from = s->name;
        c->keys->generation = 1;
        note_fetched(c, (int64_t)time(NULL));
        return 0;
    }
    return nobody_has_any(e);
}

int s3_credentials_open(struct s3_credentials **out, const struct s3_place *p, const struct log *log, struct fb_error *e)
{
    struct s3_credentials *c = calloc(1, sizeof(*c));
    *out = NULL;
    if (c) {
        c->keys = s3_secret_map(sizeof(*c->keys));
        c->next = s3_secret_map(sizeof(*c->next));
    }
    if (!c || !c->keys || !c->next) {
        if (c)
            s3_credentials_close(c);
        return error_set(e, FB_E_NOMEM, "read", "no memory for credentials");
    }
    c->place = *p;
    c->log = *log;
    int rc = fetch_first(c, e);
    if (rc < 0) {
        s3_credentials_close(c);
        return rc;
    }
    log_line(log, LOG_DEBUG, "S3: the keys come from %s", c->source->name);
    *out = c;
    return 0;
}

void s3_credentials_on_refresh(struct s3_credentials *c, void (*wake)(void *ctx), void *ctx)
{
    c->wake = wake;
    c->wake_ctx = ctx;
}

/* ---- fetching anew ---- */

static void *refresh_main(void *arg)
{
    struct s3_credentials *c = arg;
    struct s3_asking a = {&c->place, &c->is_closing};
    error_clear(&c->why);
    int rc = c->source->fetch(&a, c->next, &c->why);
    if (rc == 0)
        error_set(&c->why, FB_E_NOT_FOUND, "read", "%s has no keys any more", c->source->name);
    atomic_store_explicit(&c->state, rc == 1 ? REFRESH_READY : REFRESH_FAILED, memory_order_release);
    if (!atomic_load_explicit(&c->is_closing, memory_order_relaxed) && c->wake)
        c->wake(c->wake_ctx);
    return NULL;
}

static void join(struct s3_credentials *c)
{
    if (c->has_thread)
        pthread_join(c->thread, NULL);
    c->has_thread = false;
}

static void start_refresh(struct s3_credentials *c)
{
    join(c);
    atomic_store_explicit(&c->state, REFRESH_RUNNING, memory_order_relaxed);
    error_clear(&c->why);
    c->has_thread = thread_start(&c->thread, "fb-s3-keys", refresh_main, c, &c->why) == 0;
    if (!c->has_thread)
        atomic_store_explicit(&c->state, REFRESH_FAILED, memory_order_relaxed);
}

/* After a refusal: what is said should these keys be refused, too, and that the source is left alone for a while then. */
static void note_refused(struct s3_credentials *c, bool is_same)
{
    c->again_ns = clock_now_ns() + again_after_ns;
    error_clear(&c->why);
    if (is_same) {
        error_set(&c->why, FB_E_IO, "read", "the session token has expired, and %s has no newer one", c->source->name);
        error_remedy(&c->why, "log in again and restart; a profile file that is renewed meanwhile is read again");
    } else {
        error_set(&c->why, FB_E_IO, "read",
                  "the S3 server says that the session token has expired, both of the old keys and of the new ones from %s",
                  c->source->name);
        error_remedy(&c->why, "check that AWS_ENDPOINT_URL is the server that these keys are for");
    }
}

static void take_new(struct s3_credentials *c, int64_t now_s)
{
    struct s3_keys *old = c->keys;
    bool is_same = strcmp(old->access_key, c->next->access_key) == 0 && strcmp(old->secret_key, c->next->secret_key) == 0 &&
                   strcmp(old->token_header, c->next->token_header) == 0;
    join(c);
    c->keys = c->next;
    c->next = old;
    c->keys->from = c->source->name;
    c->keys->generation = old->generation + 1;
    note_fetched(c, now_s);
    if (c->is_refused && (is_same || !c->came_expired))
        note_refused(c, is_same);
    c->is_refused &= is_same; /* the source still has the keys that the server does not take */
    atomic_store_explicit(&c->state, c->is_refused ? REFRESH_FAILED : REFRESH_IDLE, memory_order_relaxed);
}

static void give_up_for_now(struct s3_credentials *c)
{
    char line[1600];
    join(c);
    c->again_ns = clock_now_ns() + again_after_ns;
    atomic_store_explicit(&c->state, REFRESH_IDLE, memory_order_relaxed);
    fb_format_error(&c->why, line, sizeof(line));
    log_line(&c->log, LOG_WARN, "S3: the keys could not be renewed yet: %s", line);
}

static bool is_due(const struct s3_credentials *c, int64_t now_s)
{
    int64_t expires = c->keys->expires_s, life = expires - c->fetched_s;
    if (clock_now_ns() < c->again_ns)
        return false;
    if (c->is_refused || c->came_expired)
        return true;
    return expires != 0 && now_s >= expires - (life / 2 < REFRESH_BEFORE_S ? life / 2 : REFRESH_BEFORE_S);
}

static bool is_dead(const struct s3_credentials *c, int64_t now_s)
{
    return c->is_refused || (c->keys->expires_s != 0 && now_s >= c->keys->expires_s && !c->came_expired);
}

/* Dead keys are an error unless others are under way. */
struct s3_keys *s3_credentials_now(struct s3_credentials *c, int64_t now_s, struct fb_error *e)
{
    enum refresh_state state = atomic_load_explicit(&c->state, memory_order_acquire);
    if (state == REFRESH_READY)
        take_new(c, now_s);
    if (atomic_load_explicit(&c->state, memory_order_relaxed) == REFRESH_IDLE && is_due(c, now_s))
        start_refresh(c);
    if (atomic_load_explicit(&c->state, memory_order_relaxed) == REFRESH_FAILED)
        give_up_for_now(c);
    if (!is_dead(c, now_s))
        return c->keys;
    if (atomic_load_explicit(&c->state, memory_order_relaxed) == REFRESH_IDLE && e)
        *e = c->why;
    return NULL;
}

void s3_credentials_refuse(struct s3_credentials *c, uint32_t generation)
{
    if (c->keys->generation == generation && atomic_load_explicit(&c->state, memory_order_relaxed) != REFRESH_READY)
        c->is_refused = true;
}

void s3_credentials_close(struct s3_credentials *c)
{
    if (!c)
        return;
    atomic_store_explicit(&c->is_closing, true, memory_order_relaxed);
    if (c->has_thread && !thread_join_or_leave(c->thread, thread_ends_ns))
        return; /* still asking: it keeps its memory */
    s3_secret_unmap(c->keys, sizeof(*c->keys));
    s3_secret_unmap(c->next, sizeof(*c->next));
    free(c);
}
