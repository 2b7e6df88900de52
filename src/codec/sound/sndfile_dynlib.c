#define SNDFILE_LATE_OWN
#include "codec/sound/sndfile_dynlib.h"

#include <pthread.h>

struct sndfile_calls sndfile_calls;
static struct fb_error outcome;

#define CALL(member) DYNLIB_CALL(sndfile_calls, member, sf_##member)

static void open_once(void)
{
    static const struct dynlib_call calls[] = {CALL(open_virtual), CALL(readf_float), CALL(seek), CALL(strerror), CALL(close), {0}};
    static const char *const names[] = {"libsndfile.so.1", NULL};
    static const struct dynlib library = {"libsndfile", names, "decode", "install libsndfile 1.1 or later (Debian: libsndfile1)", calls};
    dynlib_open(&library, &sndfile_calls, &outcome);
}

int sndfile_dynlib_open(struct fb_error *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_once);
    if (outcome.code && e && e->code == 0)
        *e = outcome;
    return outcome.code;
}
