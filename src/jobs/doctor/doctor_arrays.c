/* Rows of arrays: whether their chunks suit rows read in any order, and what other ways to read them would bring.
 *
 * Two layouts are bad: a row that lies in several chunks, and filtered chunks of many rows that cannot all be kept decompressed. How much
 * less there is to decompress with other chunks is known from the shapes; the rest of the cost of a row, its copy, stays.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jobs/doctor.h"

static const double small_chunk = 16 << 10, large_chunk = 256 << 10; /* bytes: for chunks that are decompressed for one row, and for many */

static double row_bytes(const struct info_array *a)
{
    return a->ndim && a->shape[0] ? (double)a->bytes / (double)a->shape[0] : (double)a->bytes;
}

static uint64_t rows_for(double bytes, double row)
{
    double rows = row > 0 ? floor(bytes / row) : 1;
    return rows < 1 ? 1 : rows > 1024 ? 1024 : (uint64_t)rows;
}

static void judge(struct doctor_chunks *c, const struct info_array *a, bool fits)
{
    uint64_t pieces = info_chunks_per_row(a), rows = a->chunk_shape[0];
    bool is_split = pieces > 1, is_decompressed_again = a->filters[0] && rows > 1 && !fits;
    if (strcmp(a->storage, "chunked") != 0 || (!is_split && !is_decompressed_again))
        return;
    *c = (struct doctor_chunks){.now_rows = rows, .chunks_of_row = pieces, .fits = fits};
    c->wanted_rows = rows_for(is_decompressed_again ? small_chunk : large_chunk, row_bytes(a));
    double now = a->filters[0] && !fits ? (double)rows : (double)pieces, then = a->filters[0] && !fits ? (double)c->wanted_rows : 1;
    c->work_ratio = fmin(1, then / now);
    c->first_ratio = a->filters[0] && fits ? 1 : c->work_ratio;
    snprintf(c->array, sizeof(c->array), "%.63s", a->name);
}

void doctor_judge_chunks(struct doctor_result *r, double memory_bytes)
{
    const struct info_array *worst = NULL;
    double all = 0;
    r->chunks = (struct doctor_chunks){.work_ratio = NAN};
    for (int i = 0; i < r->data.array_count; i++) {
        all += (double)r->data.array[i].bytes;
        if (!worst || r->data.array[i].bytes > worst->bytes)
            worst = &r->data.array[i];
    }
    if (r->data.has_rows && worst)
        judge(&r->chunks, worst, all <= memory_bytes / 3);
}

/* ---- rows of the table ---- */

static void add_rechunk(struct doctor_result *r, const char *source)
{
    const struct doctor_chunks *c = &r->chunks;
    double copy = 2 * r->output_bytes / r->machine.copy_bytes_per_s;
    double later_s = fmin(copy, r->known_cpu_s) + fmax(0, r->known_cpu_s - copy) * c->work_ratio;
    double first_s = fmin(copy, r->first_cpu_s) + fmax(0, r->first_cpu_s - copy) * c->first_ratio;
    double threads = r->machine.threads, storage = r->storage_limits ? r->cold_rate / c->first_ratio : INFINITY;
    struct doctor_row *row =
        doctor_add_row(r, REMEDY_RECHUNK, isnan(r->cold_rate) ? NAN : fmin(storage, doctor_cpu_rate(r, first_s, threads)),
                       doctor_cpu_rate(r, later_s, threads));
    row->first_cpu_s = first_s;
    row->later_cpu_s = later_s;
    row->first_bytes = fmin(row->first_bytes, r->sample_bytes / c->first_ratio);
    row->disk_bytes = (double)r->data.bytes;
    snprintf(row->change, sizeof(row->change), "chunks of %llu whole rows", (unsigned long long)c->wanted_rows);
    snprintf(row->command, sizeof(row->command), "fullbore pack %.1000s --rechunk %llu -o rechunked.h5", source,
             (unsigned long long)c->wanted_rows);
}

void doctor_predict_arrays(struct doctor_result *r, const char *source)
{
    if (isfinite(r->window.later_rate)) {
        struct doctor_row *row = doctor_add_row(r, REMEDY_WINDOW, r->window.first_rate, r->window.later_rate);
        row->first_cpu_s = row->later_cpu_s = row->first_bytes = row->later_bytes = 0; /* measured */
        snprintf(row->change, sizeof(row->change), "mixed in a window, not everywhere");
        snprintf(row->command, sizeof(row->command), "Loader(..., shuffle=\"window\")");
    }
    if (isfinite(r->preload.later_rate)) {
        struct doctor_row *row = doctor_add_row(r, REMEDY_PRELOAD, r->preload.first_rate, r->preload.later_rate);
        row->first_cpu_s = row->later_cpu_s = row->first_bytes = row->later_bytes = 0; /* measured as it is */
        row->ram_bytes = r->preload_bytes;
        snprintf(row->change, sizeof(row->change), "all rows in memory");
        snprintf(row->command, sizeof(row->command), "Loader(..., preload=True)");
    }
    if (r->chunks.now_rows)
        add_rechunk(r, source);
}
