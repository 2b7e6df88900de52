/* fullbore info DATA: what is in there. */
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "cli/cli.h"
#include "jobs/info.h"

struct info_options {
    bool json;
};

static const struct option options[] = {
    {"json", OPTION_FLAG, offsetof(struct info_options, json), .help = "one JSON object on stdout"},
    {0},
};

static void print_json(const struct info *i)
{
    struct text t = {.limit = 1 << 22};
    text_printf(&t, "{\"kind\":\"%s\",\"root\":", i->kind);
    text_json_string(&t, i->root);
    text_printf(&t, ",\"samples\":%llu,\"bytes\":%llu,\"smallest_bytes\":%llu,\"largest_bytes\":%llu,\"classes\":%d",
                (unsigned long long)i->samples, (unsigned long long)i->bytes, (unsigned long long)i->smallest_bytes,
                (unsigned long long)i->largest_bytes, i->classes);
    text_printf(&t, ",\"smallest_class_samples\":%llu,\"largest_class_samples\":%llu", (unsigned long long)i->smallest_class,
                (unsigned long long)i->largest_class);
    text_printf(&t, ",\"fingerprint\":\"%016llx\",\"catalog_is_new\":%s,\"open_seconds\":%.6f,\"fields\":[{\"name\":\"image\"}",
                (unsigned long long)i->fingerprint, i->is_fresh ? "true" : "false", i->open_seconds);
    for (int k = 0; k < i->field_count; k++) {
        text_printf(&t, ",{\"name\":");
        text_json_string(&t, i->field[k].name);
        text_printf(&t, ",\"dtype\":\"%s\",\"length\":%lld,\"is_class\":%s}", fb_dtype_name(i->field[k].dtype),
                    (long long)i->field[k].length, i->field[k].is_class ? "true" : "false");
    }
    text_printf(&t, "],\"headers_read\":%llu,\"formats\":{", (unsigned long long)i->looked);
    for (int k = 0; k < i->format_count; k++)
        text_printf(&t, "%s\"%s\":%llu", k ? "," : "", i->format[k].name, (unsigned long long)i->format[k].files);
    text_printf(&t, "},\"width_median\":%u,\"height_median\":%u,\"width_largest\":%u,\"height_largest\":%u,\"left_out\":", i->width_median,
                i->height_median, i->width_most, i->height_most);
    if (i->left_out)
        text_json_string(&t, i->left_out);
    else
        text_printf(&t, "null");
    text_printf(&t, ",\"damaged_example\":");
    if (i->damaged_example)
        text_json_string(&t, i->damaged_example);
    else
        text_printf(&t, "null");
    text_printf(&t, "}");
    puts(t.data ? t.data : "{}");
    text_free(&t);
}

static void print_labels(const struct info *i)
{
    for (int k = 0; k < i->field_count; k++) {
        const struct info_field *f = &i->field[k];
        if (f->is_class)
            printf("%-12s %s: %d classes of %llu to %llu samples\n", k ? "" : "labels", f->name, i->classes,
                   (unsigned long long)i->smallest_class, (unsigned long long)i->largest_class);
        else if (f->length > 1)
            printf("%-12s %s: %s vector of %lld\n", k ? "" : "labels", f->name, fb_dtype_name(f->dtype), (long long)f->length);
        else
            printf("%-12s %s: %s\n", k ? "" : "labels", f->name, fb_dtype_name(f->dtype));
    }
    if (!i->field_count)
        printf("%-12s none\n", "labels");
}

static void print_table(const struct info *i)
{
    char a[32], b[32], c[32], d[32], root[512];
    printf("%-12s %s %s\n", "source", i->kind, text_escape(i->root, root, sizeof(root)));
    printf("%-12s %llu, %s (mean %s, %s to %s)\n", "samples", (unsigned long long)i->samples, text_size(i->bytes, a, sizeof(a)),
           text_size(i->samples ? i->bytes / i->samples : 0, b, sizeof(b)), text_size(i->smallest_bytes, c, sizeof(c)),
           text_size(i->largest_bytes, d, sizeof(d)));
    print_labels(i);
    printf("%-12s ", "formats");
    for (int k = 0; k < i->format_count; k++)
        printf("%s%s %.0f %%", k ? ", " : "", i->format[k].name, 100.0 * (double)i->format[k].files / (double)i->looked);
    printf(" (headers of %llu files)\n", (unsigned long long)i->looked);
    if (i->width_median)
        printf("%-12s %u x %u median, %u x %u largest seen (width x height)\n", "size", i->width_median, i->height_median, i->width_most,
               i->height_most);
    if (i->left_out)
        printf("%-12s %s\n", "left out", i->left_out);
    if (i->damaged_example)
        printf("%-12s %s\n", "damaged", i->damaged_example);
    printf("%-12s %016llx\n", "fingerprint", (unsigned long long)i->fingerprint);
    printf("%-12s %s, opened in %.1f ms\n", "catalog", i->is_fresh ? "made now" : "kept from before", i->open_seconds * 1e3);
}

static int run(int argc, char **argv, uint64_t started_ns)
{
    (void)started_ns;
    struct info_options chosen = {0};
    const char *source[1];
    int rc = cli_parse(&verb_info, argc, argv, &chosen, source, 1);
    if (rc < 0)
        return -1 - rc;
    fb_options o;
    struct fb_error e = {0};
    struct info i;
    fb_init_options(&o);
    cli_wire(&o);
    o.source = source[0];
    if (info_of(&o, &i, &e) < 0)
        return cli_fail(&e);
    if (chosen.json)
        print_json(&i);
    else
        print_table(&i);
    info_free(&i);
    return EXIT_DONE;
}

const struct verb verb_info = {
    .name = "info",
    .usage = "DATA [--json]",
    .summary = "say what a folder, glob or manifest holds: samples, labels, formats, sizes",
    .examples = "  fullbore info photos/                 a folder with one folder per class\n"
                "  fullbore info 'scans/**/*.png'        a glob (quoted, so that the shell leaves it alone)\n"
                "  fullbore info labels.csv --json       a manifest, for machines\n",
    .options = options,
    .run = run,
};
