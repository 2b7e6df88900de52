/* fullbore info DATA: what is in there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "jobs/info.h"

struct info_options {
    uint64_t memory;
    bool json;
};

static const struct option options[] = {
    {"memory", OPTION_SIZE, offsetof(struct info_options, memory), 0, 0, NULL, "SIZE",
     "arrays: say what will be slow with this budget, e.g. 2GiB (default: a loader's default)"},
    {"json", OPTION_FLAG, offsetof(struct info_options, json), .help = "one JSON object on stdout"},
    {0},
};

static void put_numbers(struct json_writer *w, const char *name, const uint64_t *x, int n)
{
    json_begin_array(w, name);
    for (int i = 0; i < n; i++)
        json_put(w, J(NULL, x[i]));
    json_end(w);
}

static void put_array(struct json_writer *w, const struct info_array *a)
{
    json_begin_object(w, NULL);
    json_put(w, J("name", a->name), J("dtype", a->dtype ? fb_dtype_name(a->dtype) : ""), J("storage", a->storage));
    put_numbers(w, "shape", a->shape, a->ndim);
    if (a->chunks)
        put_numbers(w, "chunk_shape", a->chunk_shape, a->ndim);
    json_put(w, J("chunks", a->chunks), J("chunks_never_written", a->missing_chunks), J("filters", a->filters), J("bytes", a->bytes),
             J("stored_bytes", a->stored_bytes), J("rows_smallest", a->least_rows), J("rows_largest", a->most_rows), J("files", a->files),
             J("problem", a->problem));
    json_end(w);
}

static void put_sound(struct json_writer *w, const struct info_sound *s)
{
    json_put(w, J_OBJECT("sound", J("frames_shortest", s->shortest), J("frames_longest", s->longest), J("rate_lowest_hz", s->least_rate),
                         J("rate_highest_hz", s->most_rate), J("channels_fewest", s->least_channels), J("channels_most", s->most_channels),
                         J_FIXED("seconds_looked_at", 3, s->seconds)));
}

static void put_arrays(struct json_writer *w, const struct info *i)
{
    json_put(w, J_BOOL("has_rows", i->has_rows), J("rows", i->rows));
    json_begin_array(w, "arrays");
    for (int k = 0; k < i->array_count; k++)
        put_array(w, &i->array[k]);
    json_end(w);
    if (i->sound.most_channels)
        put_sound(w, &i->sound);
    json_begin_array(w, "slow");
    for (int k = 0; k < i->remark_count; k++)
        json_put(w, J(NULL, i->remark[k]));
    json_end(w);
}

static void put_fields(struct json_writer *w, const struct info *i, bool is_image)
{
    json_begin_array(w, "fields");
    if (is_image)
        json_put(w, J_OBJECT(NULL, J("name", "image")));
    for (int k = 0; k < i->field_count; k++)
        json_put(w, J_OBJECT(NULL, J("name", i->field[k].name), J("dtype", fb_dtype_name(i->field[k].dtype)),
                             J("length", i->field[k].length), J_BOOL("is_class", i->field[k].is_class)));
    json_end(w);
}

static void put_files(struct json_writer *w, const struct info *i)
{
    json_begin_array(w, "files");
    for (int k = 0; k < i->file_count; k++)
        json_put(w, J(NULL, i->file[k]));
    json_end(w);
    json_put(w, J("headers_read", i->examined));
    json_begin_object(w, "formats");
    for (int k = 0; k < i->format_count; k++)
        json_put(w, J(i->format[k].name, i->format[k].files));
    json_end(w);
}

static void print_json(const struct info *i)
{
    struct text t = {.limit = 1 << 22};
    struct json_writer w = {.out = &t};
    bool is_image = strcmp(i->family, "image") == 0;
    json_begin_object(&w, NULL);
    json_put(&w, J("kind", i->kind), J("root", i->root), J("samples", i->samples), J("bytes", i->bytes),
             J("smallest_bytes", i->smallest_bytes), J("largest_bytes", i->largest_bytes), J("classes", i->classes),
             J("smallest_class_samples", i->smallest_class), J("largest_class_samples", i->largest_class),
             J_HEX("fingerprint", i->fingerprint), J_BOOL("catalog_is_new", i->is_fresh), J_FIXED("open_seconds", 6, i->open_seconds),
             J("family", i->family));
    put_fields(&w, i, is_image);
    put_files(&w, i);
    json_put(&w, J("width_median", i->width_median), J("height_median", i->height_median), J("width_largest", i->width_most),
             J("height_largest", i->height_most), J("left_out", i->left_out), J("damaged_example", i->damaged_example));
    if (!is_image)
        put_arrays(&w, i);
    json_end(&w);
    say_json(&t);
}

static void print_labels(const struct info *i)
{
    for (int k = 0; k < i->field_count; k++) {
        const struct info_field *f = &i->field[k];
        if (f->is_class)
            say("%-12s %s: %d classes of %llu to %llu samples\n", k ? "" : "labels", f->name, i->classes,
                (unsigned long long)i->smallest_class, (unsigned long long)i->largest_class);
        else if (f->length > 1)
            say("%-12s %s: %s vector of %lld\n", k ? "" : "labels", f->name, fb_dtype_name(f->dtype), (long long)f->length);
        else
            say("%-12s %s: %s\n", k ? "" : "labels", f->name, fb_dtype_name(f->dtype));
    }
    if (!i->field_count)
        say("%-12s none\n", "labels");
    for (int k = 0; k < i->file_count; k++) {
        char shown[256];
        say("%-12s %s\n", k ? "" : "more files", text_escape(i->file[k], shown, sizeof(shown)));
    }
}

/* "60000 x 1024" */
static const char *show_shape(const uint64_t *shape, int ndim, char *out, size_t out_size)
{
    int at = snprintf(out, out_size, "%s", ndim ? "" : "one number");
    for (int d = 0; d < ndim && (size_t)at < out_size; d++)
        at += snprintf(out + at, out_size - (size_t)at, "%s%llu", d ? " x " : "", (unsigned long long)shape[d]);
    return out;
}

static void print_array(const struct info_array *a, bool is_first)
{
    char name[100], shape[100], chunk[100], size[32];
    say("%-12s %s: %s %s", is_first ? "arrays" : "", a->name[0] ? text_escape(a->name, name, sizeof(name)) : "(the only one)",
        a->dtype ? fb_dtype_name(a->dtype) : "no numbers", show_shape(a->shape, a->ndim, shape, sizeof(shape)));
    if (a->least_rows != a->most_rows)
        say(" (%llu to %llu rows)", (unsigned long long)a->least_rows, (unsigned long long)a->most_rows);
    if (a->chunks)
        say(", %llu chunks of %s", (unsigned long long)a->chunks, show_shape(a->chunk_shape, a->ndim, chunk, sizeof(chunk)));
    else
        say(", %s", a->storage);
    if (a->missing_chunks)
        say(" (%llu never written)", (unsigned long long)a->missing_chunks);
    if (a->filters[0])
        say(", %s", a->filters);
    say(", %s", text_size(a->bytes, size, sizeof(size)));
    if (a->stored_bytes && a->stored_bytes != a->bytes)
        say(" stored in %s", text_size(a->stored_bytes, size, sizeof(size)));
    say("\n");
}

static void print_sound(const struct info_sound *s, uint64_t examined)
{
    say("%-12s %.2f to %.2f s (%llu to %llu frames), ", "sound", s->most_rate ? (double)s->shortest / s->most_rate : 0,
        s->most_rate ? (double)s->longest / s->most_rate : 0, (unsigned long long)s->shortest, (unsigned long long)s->longest);
    if (s->least_rate == s->most_rate)
        say("%u Hz, ", s->most_rate);
    else
        say("%u to %u Hz, ", s->least_rate, s->most_rate);
    if (s->least_channels == s->most_channels)
        say("%u channel%s", s->most_channels, s->most_channels == 1 ? "" : "s");
    else
        say("%u to %u channels", s->least_channels, s->most_channels);
    say("; %.1f s in total in the %llu files examined\n", s->seconds, (unsigned long long)examined);
}

static void print_arrays(const struct info *i)
{
    if (i->has_rows && i->rows)
        say("%-12s %llu; a sample is a row, or with sample=\"file\" a whole file\n", "rows", (unsigned long long)i->rows);
    if (i->sound.most_channels)
        print_sound(&i->sound, i->examined);
    else
        for (int k = 0; k < i->array_count; k++)
            print_array(&i->array[k], k == 0);
    for (int k = 0; k < i->remark_count; k++)
        say("%-12s %s\n", k ? "" : "to know", i->remark[k]);
}

static void print_table(const struct info *i)
{
    char a[32], b[32], c[32], d[32], root[512];
    say("%-12s %s %s\n", "source", i->kind, text_escape(i->root, root, sizeof(root)));
    say("%-12s %llu, %s (mean %s, %s to %s)\n", strcmp(i->family, "array") == 0 ? "files" : "samples", (unsigned long long)i->samples,
        text_size(i->bytes, a, sizeof(a)), text_size(i->samples ? i->bytes / i->samples : 0, b, sizeof(b)),
        text_size(i->smallest_bytes, c, sizeof(c)), text_size(i->largest_bytes, d, sizeof(d)));
    print_labels(i);
    say("%-12s ", "formats");
    for (int k = 0; k < i->format_count; k++)
        say("%s%s %.0f %%", k ? ", " : "", i->format[k].name, 100.0 * (double)i->format[k].files / (double)i->examined);
    say(" (headers of %llu files)\n", (unsigned long long)i->examined);
    if (i->width_median)
        say("%-12s %u x %u median, %u x %u largest seen (width x height)\n", "size", i->width_median, i->height_median, i->width_most,
            i->height_most);
    print_arrays(i);
    if (i->left_out)
        say("%-12s %s\n", "left out", i->left_out);
    if (i->damaged_example)
        say("%-12s %s\n", "damaged", i->damaged_example);
    say("%-12s %016llx\n", "fingerprint", (unsigned long long)i->fingerprint);
    say("%-12s %s, opened in %.1f ms\n", "catalog", i->is_fresh ? "made now" : "kept from before", i->open_seconds * 1e3);
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
    cli_init_options(&o, source[0]);
    o.memory = chosen.memory;
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
    .usage = "DATA [--memory SIZE] [--json]",
    .summary = "say what a folder, glob, manifest or file holds: samples, labels, formats, sizes, arrays and what will be slow with them",
    .examples = "  fullbore info photos/                 a folder with one folder per class\n"
                "  fullbore info 'scans/**/*.png'        a glob (quoted, so that the shell leaves it alone)\n"
                "  fullbore info labels.csv --json       a manifest, as JSON\n"
                "  fullbore info train.h5                arrays: shapes, chunks, filters, and what will be slow\n",
    .options = options,
    .run = run,
};
