#include "photo_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../codec/image/jpeg_maker.h"

static void write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) {
        perror(path);
        abort();
    }
}

static void path_of(const struct photo_folder *p, int i, int classes, char *out, size_t out_size)
{
    snprintf(out, out_size, "%s/class%d/%05d.jpg", p->root, i % classes, i);
}

void photo_folder_make(struct photo_folder *p, int count, int classes)
{
    char template[] = "/tmp/fb-feed-XXXXXX", path[600];
    if (!mkdtemp(template))
        abort();
    p->count = count;
    snprintf(p->root, sizeof(p->root), "%s/photos", template);
    snprintf(p->home, sizeof(p->home), "%s/home", template);
    mkdir(p->root, 0700);
    mkdir(p->home, 0700);
    for (int c = 0; c < classes; c++) {
        snprintf(path, sizeof(path), "%s/class%d", p->root, c);
        mkdir(path, 0700);
    }
    static const struct jpeg_recipe recipe = {"4:2:0", 3, {0x22, 0x11, 0x11}};
    for (int i = 0; i < count; i++) {
        struct bytes b = jpeg_make(&recipe, 40 + (uint32_t)i % 23, 36 + (uint32_t)i % 17);
        path_of(p, i, classes, path, sizeof(path));
        write_file(path, b.data, b.n);
        free(b.data);
    }
}

void photo_folder_spoil(const struct photo_folder *p, int i, int classes, const void *bytes, size_t n)
{
    char path[600];
    path_of(p, i, classes, path, sizeof(path));
    write_file(path, bytes, n);
}

void photo_folder_remove(struct photo_folder *p)
{
    char command[600];
    *strrchr(p->root, '/') = 0;
    snprintf(command, sizeof(command), "rm -rf '%s'", p->root);
    if (system(command) != 0)
        abort();
}

fb_options photo_options(const struct photo_folder *p)
{
    fb_options o;
    fb_init_options(&o);
    o.source = p->root;
    o.catalog_dir = p->home;
    o.batch_size = 8;
    o.shuffle = 1;
    o.seed = 7;
    o.threads = 2;
    o.memory = 64 << 20;
    o.rank = 0;
    o.world_size = 1;
    o.transforms = "random_resized_crop size=32,32; random_horizontal_flip p=0.5";
    return o;
}
