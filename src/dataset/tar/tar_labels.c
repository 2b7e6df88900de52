/* Which labels a foreign archive has, found by reading all of them: types follow the rules of manifests.
 *
 * .cls holds one label and wins over everything. .json holds an object; its numbers, vectors of one length and the text under a name that
 * says "class" become fields if every sample has them, the rest (captions, addresses, nested things) is passed over. .txt is taken only if
 * every one is a number or a single word: most are captions.
 */
#include "dataset/tar/tar_labels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>

enum { MOST_TEXT = 64 << 10, MOST_JSON = 4 << 20 };
static const char *const side_names[SIDE_KINDS] = {".cls", ".json", ".txt"};

void tar_labels_init(struct tar_labels *l, const struct tar_table *t, const struct archive *archives)
{
    memset(l, 0, sizeof(*l));
    l->table = t;
    l->archives = archives;
    l->side = -1;
    l->open_archive = UINT32_MAX;
    l->window.fd = -1;
    l->bytes.limit = MOST_JSON + 1;
    l->floats.limit = 64 << 20;
}

void tar_labels_free(struct tar_labels *l)
{
    json_decref(l->json);
    text_free(&l->bytes);
    text_free(&l->floats);
    tar_window_close(&l->window);
}

static const struct tar_side *side_of(const struct tar_labels *l, const struct tar_image *image, int side)
{
    return &((const struct tar_group *)(const void *)l->table->groups.data)[image->group].side[side];
}

static int refuse(const struct tar_labels *l, const struct tar_image *image, struct fb_error *e, const char *what)
{
    char key[200];
    error_set(e, FB_E_DATA, "dataset", "the %s of '%s' %s", side_names[l->side],
              text_escape(tar_table_key(l->table, image), key, sizeof(key)), what);
    error_at(e, l->archives[image->archive].path, (int64_t)side_of(l, image, l->side)->offset);
    return FB_E_DATA;
}

/* ---- reading one ---- */

static int open_archive(struct tar_labels *l, uint32_t number, struct fb_error *e)
{
    if (l->open_archive == number)
        return 0;
    tar_window_close(&l->window);
    l->open_archive = UINT32_MAX;
    FB_TRY(tar_window_open(&l->window, &l->archives[number], e));
    l->open_archive = number;
    return 0;
}

static int read_bytes(struct tar_labels *l, const struct tar_image *image, struct fb_error *e)
{
    const struct tar_side *s = side_of(l, image, l->side);
    if (s->size > (l->side == SIDE_JSON ? MOST_JSON : MOST_TEXT))
        return refuse(l, image, e, "is too long for a label");
    FB_TRY(open_archive(l, image->archive, e));
    char piece[4096];
    l->bytes.length = 0;
    text_append(&l->bytes, "", 0);
    for (uint64_t done = 0; done < s->size;) {
        size_t n = s->size - done < sizeof(piece) ? (size_t)(s->size - done) : sizeof(piece);
        FB_TRY(tar_window_read(&l->window, s->offset + done, piece, n, e));
        text_append(&l->bytes, piece, n);
        done += n;
    }
    return l->bytes.failed ? error_set(e, FB_E_NOMEM, "dataset", "no memory for a label") : 0;
}

/* The column of that name; NULL: there are too many. A new one is only made while choosing. */
static struct label_column *column_of(struct tar_labels *l, const char *name, bool may_add)
{
    for (int i = 0; i < l->count; i++)
        if (strcmp(l->column[i].name, name) == 0)
            return &l->column[i];
    if (!may_add || l->count == LABELS_MOST || strlen(name) >= sizeof(l->column[0].name) || !name[0] || strcmp(name, "image") == 0)
        return NULL;
    struct label_column *c = &l->column[l->count++];
    memset(c, 0, sizeof(*c));
    memcpy(c->name, name, strlen(name));
    return c;
}

static int read_plain(struct tar_labels *l, const struct tar_image *image, bool may_add, struct fb_error *e)
{
    char *text = l->bytes.data;
    size_t n = l->bytes.length;
    while (n && strchr(" \t\r\n", text[n - 1]))
        n--;
    size_t from = 0;
    while (from < n && strchr(" \t\r\n", text[from]))
        from++;
    text[n] = 0;
    if (from == n || memchr(text, 0, n))
        return refuse(l, image, e, from == n ? "is empty" : "is not text");
    struct label_column *c = column_of(l, "label", may_add);
    l->vector_at[c - l->column] = l->floats.length;
    return cell_parse(&c->cell, text + from, n - from, &l->floats) ? 0 : error_set(e, FB_E_NOMEM, "dataset", "no memory for a label");
}

static bool json_to_vector(struct tar_labels *l, int column, const json_t *array, struct cell *c)
{
    size_t n = json_array_size(array);
    l->vector_at[column] = l->floats.length;
    bool is_huge = false;
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(array, i);
        if (!json_is_number(item))
            return false;
        cell_add_float(&l->floats, json_number_value(item), &is_huge);
    }
    *c = (struct cell){.kind = is_huge ? CELL_HUGE : CELL_VECTOR, .vector_length = (uint32_t)n};
    return n > 0 && n < (1u << 20) && !l->floats.failed;
}

static void json_to_cell(struct tar_labels *l, int column, const json_t *v, struct cell *c)
{
    *c = (struct cell){.kind = CELL_EMPTY};
    if (json_is_integer(v) || json_is_boolean(v)) {
        c->kind = CELL_INTEGER;
        c->integer = json_is_integer(v) ? json_integer_value(v) : json_is_true(v);
        c->number = (double)c->integer;
    } else if (json_is_real(v)) {
        c->kind = CELL_NUMBER;
        c->number = json_real_value(v);
    } else if (json_is_string(v)) {
        c->kind = CELL_TEXT;
        c->text = json_string_value(v);
        c->length = json_string_length(v);
    } else if (json_is_array(v) && !json_to_vector(l, column, v, c)) {
        *c = (struct cell){.kind = CELL_EMPTY};
    }
}

static int read_json(struct tar_labels *l, const struct tar_image *image, bool may_add, struct fb_error *e)
{
    json_decref(l->json);
    l->json = json_loadb(l->bytes.data ? l->bytes.data : "", l->bytes.length, 0, NULL);
    if (!json_is_object((json_t *)l->json))
        return refuse(l, image, e, "is not a JSON object");
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)l->json, name, value)
    {
        struct label_column *c = column_of(l, name, may_add);
        if (c)
            json_to_cell(l, (int)(c - l->column), value, &c->cell);
    }
    return l->floats.failed ? error_set(e, FB_E_NOMEM, "dataset", "no memory for a label") : 0;
}

/* The cells of one image; those it does not have are empty. */
static int read_cells(struct tar_labels *l, const struct tar_image *image, bool may_add, struct fb_error *e)
{
    for (int i = 0; i < l->count; i++)
        l->column[i].cell = (struct cell){.kind = CELL_EMPTY};
    l->floats.length = 0;
    FB_TRY(read_bytes(l, image, e));
    FB_TRY(l->side == SIDE_JSON ? read_json(l, image, may_add, e) : read_plain(l, image, may_add, e));
    for (int i = 0; i < l->count; i++) /* the pool has stopped moving */
        if (l->column[i].cell.kind == CELL_VECTOR)
            l->column[i].cell.vector = (const float *)(const void *)(l->floats.data + l->vector_at[i]);
    return 0;
}

/* ---- choosing ---- */

static void observe(struct label_column *c)
{
    const struct cell *cell = &c->cell;
    c->kinds |= 1u << cell->kind;
    c->present += cell->kind != CELL_EMPTY;
    if (cell->kind == CELL_TEXT && (strpbrk(cell->text, " \t\r\n") || !cell->text[0] || cell->length > 255))
        c->has_spaces = true;
    if (cell->kind == CELL_VECTOR) {
        c->is_ragged |= c->vector_length && c->vector_length != cell->vector_length;
        c->vector_length = cell->vector_length;
    }
}

static int observe_all(struct tar_labels *l, struct dataset_job *job, struct fb_error *e)
{
    uint64_t n = tar_table_count(l->table);
    for (uint64_t i = 0; i < n; i++) {
        FB_TRY(scan_progress_report(&job->progress, i, n, e));
        FB_TRY(read_cells(l, tar_table_image(l->table, i), true, e));
        for (int c = 0; c < l->count; c++)
            observe(&l->column[c]);
    }
    return 0;
}

static bool says_class(const char *name)
{
    static const char *const names[] = {"label", "cls", "class", "class_name", "category", "target", NULL};
    for (int i = 0; names[i]; i++)
        if (strcasecmp(names[i], name) == 0)
            return true;
    return false;
}

/* False: not a field. */
static bool choose_type(struct label_column *c, uint64_t samples, int side, bool has_class)
{
    enum { INTEGER = 1u << CELL_INTEGER, NUMBER = 1u << CELL_NUMBER, VECTOR = 1u << CELL_VECTOR, TEXT = 1u << CELL_TEXT };
    struct catalog_field *f = &c->field;
    memset(f, 0, sizeof(*f));
    memcpy(f->name, c->name, sizeof(f->name));
    if (c->present != samples)
        return false;
    if (c->kinds == INTEGER) {
        f->dtype = FB_INT64;
    } else if (c->kinds == NUMBER || c->kinds == (INTEGER | NUMBER)) {
        f->dtype = FB_FLOAT32;
    } else if (c->kinds == VECTOR && !c->is_ragged) {
        f->dtype = FB_FLOAT32;
        f->ndim = 1;
        f->shape[0] = c->vector_length;
    } else if ((side == SIDE_CLS && !(c->kinds & (1u << CELL_HUGE))) || (c->kinds == TEXT && !has_class && says_class(c->name))) {
        f->dtype = FB_INT64;
        f->is_class = true;
    }
    return f->dtype != 0 && !(side == SIDE_TXT && c->has_spaces);
}

static void choose_columns(struct tar_labels *l, uint64_t samples)
{
    int kept = 0;
    bool has_class = false;
    for (int i = 0; i < l->count; i++)
        if (choose_type(&l->column[i], samples, l->side, has_class)) {
            has_class |= l->column[i].field.is_class;
            l->column[kept++] = l->column[i];
        }
    l->count = kept;
}

static uint64_t count_sides(const struct tar_labels *l, int side, const struct tar_image **first_without)
{
    uint64_t n = tar_table_count(l->table), with = 0;
    *first_without = NULL;
    for (uint64_t i = 0; i < n; i++) {
        const struct tar_image *image = tar_table_image(l->table, i);
        bool has = side_of(l, image, side)->size != UINT64_MAX;
        with += has;
        if (!has && !*first_without)
            *first_without = image;
    }
    return with;
}

static int refuse_missing(struct tar_labels *l, uint64_t with, const struct tar_image *without, struct fb_error *e)
{
    char key[200];
    uint64_t n = tar_table_count(l->table);
    error_set(e, FB_E_DATA, "dataset", "%llu of %llu images have no .cls beside them, the first is '%s'", (unsigned long long)(n - with),
              (unsigned long long)n, text_escape(tar_table_key(l->table, without), key, sizeof(key)));
    error_remedy(e, "give every sample a label, or none");
    error_at(e, l->archives[without->archive].path, (int64_t)without->offset);
    return FB_E_DATA;
}

int tar_labels_choose(struct tar_labels *l, struct dataset_job *job, struct fb_error *e)
{
    uint64_t n = tar_table_count(l->table);
    for (int side = 0; l->table->has_sides && side < SIDE_KINDS && l->count == 0; side++) {
        const struct tar_image *without;
        uint64_t with = count_sides(l, side, &without);
        if (with && with < n && side == SIDE_CLS)
            return refuse_missing(l, with, without, e);
        if (with && with < n)
            log_line(&job->request->log, LOG_WARN, "only %llu of %llu images have a %s beside them, so these files are not used as labels",
                     (unsigned long long)with, (unsigned long long)n, side_names[side]);
        if (with < n || n == 0)
            continue;
        l->side = side;
        FB_TRY(observe_all(l, job, e));
        choose_columns(l, n);
    }
    return 0;
}

/* ---- values ---- */

int tar_labels_read(struct tar_labels *l, const struct tar_image *image, struct catalog_writer *w, struct fb_error *e)
{
    FB_TRY(read_cells(l, image, false, e));
    for (int i = 0; i < l->count; i++) {
        const struct label_column *c = &l->column[i];
        const struct cell *cell = &c->cell;
        if (cell->kind == CELL_EMPTY)
            return refuse(l, image, e, "has changed");
        l->value[i] = c->field.dtype == FB_INT64 ? (const void *)&l->integer[i] : &l->number[i];
        if (c->field.is_class)
            FB_TRY((int)(l->integer[i] = catalog_add_class(w, cell->text ? cell->text : "", e)));
        else if (c->field.ndim == 1)
            l->value[i] = cell->vector;
        else if (c->field.dtype == FB_INT64)
            l->integer[i] = cell->integer;
        else
            l->number[i] = (float)cell->number;
        if (c->field.ndim == 1 && cell->vector_length != c->vector_length)
            return refuse(l, image, e, "has changed");
    }
    return 0;
}
