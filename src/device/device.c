#include "device/device.h"

#include <string.h>

#include "base/text/text.h"

static int refuse_name(const char *spec, struct fb_error *e)
{
    char shown[64];
    return error_advise(e, error_set(e, FB_E_USAGE, "device", "there is no device called '%s'", text_escape(spec, shown, sizeof(shown))),
                        "use cuda, cuda:N, or emulated:12GB/s,20us");
}

int device_open(struct device **out, const char *spec, struct fb_error *e)
{
    *out = NULL;
    size_t length = strcspn(spec, ":");
    for (int i = 0; device_list[i]; i++)
        if (strlen(device_list[i]->name) == length && strncmp(device_list[i]->name, spec, length) == 0)
            return device_list[i]->open(out, spec[length] ? spec + length + 1 : "", e);
    return refuse_name(spec, e);
}
