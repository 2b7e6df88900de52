/* libcurl, opened when an object store is first used: it brings some thirty libraries along (base/dynlib.h). The functions have their usual
 * names; nothing may call one before curl_dynlib_open has returned 0. */
#ifndef FB_IO_S3_LOOP_CURL_DYNLIB_H
#define FB_IO_S3_LOOP_CURL_DYNLIB_H

#define CURL_DISABLE_TYPECHECK /* its macros would call the functions by themselves */
#include <curl/curl.h>

#include "base/dynlib.h"

#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

struct curl_calls {
    DYNLIB_MEMBER(global_init, curl_global_init);
    DYNLIB_MEMBER(version_info, curl_version_info);
    DYNLIB_MEMBER(easy_init, curl_easy_init);
    DYNLIB_MEMBER(easy_setopt, curl_easy_setopt);
    DYNLIB_MEMBER(easy_getinfo, curl_easy_getinfo);
    DYNLIB_MEMBER(easy_perform, curl_easy_perform);
    DYNLIB_MEMBER(easy_strerror, curl_easy_strerror);
    DYNLIB_MEMBER(easy_cleanup, curl_easy_cleanup);
    DYNLIB_MEMBER(multi_init, curl_multi_init);
    DYNLIB_MEMBER(multi_setopt, curl_multi_setopt);
    DYNLIB_MEMBER(multi_add_handle, curl_multi_add_handle);
    DYNLIB_MEMBER(multi_remove_handle, curl_multi_remove_handle);
    DYNLIB_MEMBER(multi_socket_action, curl_multi_socket_action);
    DYNLIB_MEMBER(multi_info_read, curl_multi_info_read);
    DYNLIB_MEMBER(multi_cleanup, curl_multi_cleanup);
};

/* Constant once curl_dynlib_open has returned 0. */
extern struct curl_calls curl_calls;

/* The first call opens and starts it, later ones repeat the outcome. FB_E_UNSUPPORTED. Any thread. */
int curl_dynlib_open(struct fb_error *e);

#ifndef CURL_LATE_OWN
#define curl_easy_init curl_calls.easy_init
#define curl_easy_setopt curl_calls.easy_setopt
#define curl_easy_getinfo curl_calls.easy_getinfo
#define curl_easy_perform curl_calls.easy_perform
#define curl_easy_strerror curl_calls.easy_strerror
#define curl_easy_cleanup curl_calls.easy_cleanup
#define curl_multi_init curl_calls.multi_init
#define curl_multi_setopt curl_calls.multi_setopt
#define curl_multi_add_handle curl_calls.multi_add_handle
#define curl_multi_remove_handle curl_calls.multi_remove_handle
#define curl_multi_socket_action curl_calls.multi_socket_action
#define curl_multi_info_read curl_calls.multi_info_read
#define curl_multi_cleanup curl_calls.multi_cleanup
#endif

#endif
