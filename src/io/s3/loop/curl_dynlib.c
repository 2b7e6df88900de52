#define CURL_LATE_OWN
#include "io/s3/loop/curl_dynlib.h"

#include <pthread.h>

struct curl_calls curl_calls;
static struct fb_error outcome;

#define CALL(member) DYNLIB_CALL(curl_calls, member, curl_##member)

static void open_once(void)
{
    static const struct dynlib_call calls[] = {
        CALL(global_init),         CALL(version_info),    CALL(easy_init),        CALL(easy_setopt),
        CALL(easy_getinfo),        CALL(easy_perform),    CALL(easy_strerror),    CALL(easy_cleanup),
        CALL(multi_init),          CALL(multi_setopt),    CALL(multi_add_handle), CALL(multi_remove_handle),
        CALL(multi_socket_action), CALL(multi_info_read), CALL(multi_cleanup),    {0},
    };
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4", NULL};
    static const struct dynlib library = {"libcurl", names, "read", "install libcurl 7.85 or later (Debian: libcurl4)", calls};
    if (dynlib_open(&library, &curl_calls, &outcome) < 0)
        return;
    const curl_version_info_data *v = curl_calls.version_info(CURLVERSION_NOW);
    if (v->version_num < 0x075500) {
        error_set(&outcome, FB_E_UNSUPPORTED, "read", "libcurl %s is too old for object stores", v->version);
        error_remedy(&outcome, "%s", library.remedy);
    } else if (curl_calls.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        error_set(&outcome, FB_E_UNSUPPORTED, "read", "libcurl %s does not start", v->version);
    }
}

int curl_dynlib_open(struct fb_error *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_once);
    if (outcome.code && e && e->code == 0)
        *e = outcome;
    return outcome.code;
}
