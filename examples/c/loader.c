/* A training loop's data side in C: every image of a folder, cropped, flipped and normalised, in batches, for two epochs.
 *
 *     cc -std=c11 loader.c $(pkg-config --cflags --libs fullbore) -o loader
 *     ./loader FOLDER [BATCH_SIZE]
 *
 * Prints a line per epoch with the number of samples and the mean of all values, then how to go on from the middle: the state after the
 * first batch of a third epoch, loaded into a second loader, gives the batch that the first one gives next.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <fullbore/fullbore.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int report(const struct fb_error *e)
{
    char line[2048];
    fb_format_error(e, line, sizeof line);
    fprintf(stderr, "loader: %s\n", line);
    return 1;
}

/* Stands for the model: looks at every value. */
static double sum_of(const struct fb_array *images)
{
    const float *value = images->data;
    double sum = 0;
    for (size_t i = 0; i < images->bytes / sizeof *value; i++)
        sum += value[i];
    return sum;
}

static int run_epoch(fb_loader *loader, struct fb_error *e)
{
    fb_batch *batch;
    uint64_t samples = 0, values = 0;
    double sum = 0;
    int rc;
    int64_t epoch = fb_start_epoch(loader, FB_NEXT_EPOCH, e);
    if (epoch < 0)
        return (int)epoch;
    while ((rc = fb_next_batch(loader, &batch, e)) == 1) {
        const struct fb_array *images = fb_batch_array(batch, 0);
        samples += (uint64_t)fb_batch_size(batch);
        values += images->bytes / sizeof(float);
        sum += sum_of(images);
        fb_release_batch(batch);
    }
    if (rc == 0)
        printf("epoch %" PRId64 ": %" PRIu64 " samples, mean %.4f\n", epoch, samples, sum / (double)values);
    return rc;
}

/* Takes one batch, remembers where it stands, and checks that a loader told so goes on with the same next batch. */
static int show_resume(fb_loader *first, fb_loader *second, struct fb_error *e)
{
    fb_batch *batch;
    char state[1024];
    double expected, got;
    if (fb_start_epoch(first, FB_NEXT_EPOCH, e) < 0 || fb_next_batch(first, &batch, e) != 1)
        return -1;
    fb_release_batch(batch);
    fb_save_state(first, state, sizeof state);
    if (fb_next_batch(first, &batch, e) != 1)
        return -1;
    expected = sum_of(fb_batch_array(batch, 0));
    fb_release_batch(batch);

    if (fb_load_state(second, state, e) < 0 || fb_start_epoch(second, FB_NEXT_EPOCH, e) < 0 || fb_next_batch(second, &batch, e) != 1)
        return -1;
    got = sum_of(fb_batch_array(batch, 0));
    printf("resumed at %s with %s\n", fb_batch_key(batch, 0), got == expected ? "the same batch" : "ANOTHER BATCH");
    fb_release_batch(batch);
    return got == expected ? 0 : -1;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: loader FOLDER [BATCH_SIZE]\n");
        return 2;
    }
    struct fb_error e;
    fb_loader *first = NULL, *second = NULL;
    fb_options options;
    memset(&e, 0, sizeof e);
    fb_init_options(&options);
    options.source = argv[1];
    options.batch_size = argc > 2 ? strtoull(argv[2], NULL, 10) : 8;
    options.shuffle = 1;
    options.seed = 42;
    options.transforms = "random_resized_crop size=224,224; random_horizontal_flip p=0.5; "
                         "normalize mean=0.485,0.456,0.406 std=0.229,0.224,0.225";

    int failed = fb_open(&options, &first, &e) < 0 || fb_open(&options, &second, &e) < 0;
    for (int i = 0; i < 2 && !failed; i++)
        failed = run_epoch(first, &e) < 0;
    failed = failed || show_resume(first, second, &e) < 0;
    fb_close(second);
    fb_close(first);
    return failed ? report(&e) : 0;
}
