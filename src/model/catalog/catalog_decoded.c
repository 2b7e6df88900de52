/* The note of a table of decoded pictures: "HEIGHT WIDTH". It comes with the data, so it may say anything. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/catalog/catalog.h"
#include "model/image.h"

/* A side in decimal digits, and nothing before it. */
static bool take_side(const char **text, uint32_t *out)
{
    uint32_t side = 0;
    size_t digits = strspn(*text, "0123456789");
    for (size_t i = 0; i < digits && side <= IMAGE_MAX_SIDE; i++)
        side = side * 10 + (uint32_t)((*text)[i] - '0');
    *text += digits;
    *out = side;
    return digits && side >= 1 && side <= IMAGE_MAX_SIDE;
}

int catalog_decoded_size(const struct catalog *c, uint32_t *height, uint32_t *width, struct fb_error *e)
{
    const char *text = catalog_note(c, "decoded");
    uint32_t h, w;
    if (!text)
        return 0;
    bool is_size = take_side(&text, &h) && *text++ == ' ' && take_side(&text, &w) && *text == '\0';
    if (!is_size || (uint64_t)h * w > IMAGE_MAX_PIXELS) {
        error_set(e, FB_E_DATA, "dataset",
                  "the catalog does not say how large the decoded pictures are, or claims more than %d pixels a side or %llu in all",
                  IMAGE_MAX_SIDE, (unsigned long long)IMAGE_MAX_PIXELS);
        error_remedy(e, "fetch the pictures again with their catalog, or make both anew with 'fullbore pack --decode'");
        return FB_E_DATA;
    }
    *height = h;
    *width = w;
    return 1;
}

bool catalog_decoded_header(uint64_t rows, uint32_t height, uint32_t width, char out[DECODED_HEADER_BYTES])
{
    enum { BEFORE = 10 }; /* magic, version 1.0, length */
    static const char before[BEFORE] = {(char)0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, DECODED_HEADER_BYTES - BEFORE, 0};
    char text[DECODED_HEADER_BYTES];
    int n = snprintf(text, sizeof(text), "{'descr': '|u1', 'fortran_order': False, 'shape': (%llu, %u, %u, 3), }", (unsigned long long)rows,
                     height, width);
    if (n >= DECODED_HEADER_BYTES - BEFORE)
        return false;
    memcpy(out, before, BEFORE);
    memset(out + BEFORE, ' ', DECODED_HEADER_BYTES - BEFORE);
    memcpy(out + BEFORE, text, (size_t)n);
    out[DECODED_HEADER_BYTES - 1] = '\n';
    return true;
}
