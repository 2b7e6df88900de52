/* The table says where in a file's path and in which functions which activity happens. The first line that fits counts.
 *
 * A generator of the program itself is a hint at loading: most plain training loops take their batches from one. It is only on the stack
 * while it makes the next value.
 */
#include "host/python/py_activity.h"

#include <stddef.h>
#include <string.h>

#define SURE_LOADING FRAME_SURE, ACTIVITY_LOADING
#define SURE_SAVING FRAME_SURE, ACTIVITY_SAVING
#define STEP FRAME_STEP, ACTIVITY_STEP
#define MAYBE_LOADING FRAME_HINT, ACTIVITY_LOADING
#define MAYBE_STEP FRAME_HINT, ACTIVITY_STEP
#define MAYBE_SAVING FRAME_HINT, ACTIVITY_SAVING
#define NEITHER FRAME_HINT, ACTIVITY_OTHER
#define NOTHING FRAME_NOTHING, ACTIVITY_OTHER

/* Part of a path; OWN: any file of the program itself. A name of a package stands behind "-packages/" (site-packages, dist-packages), so
 * that a project folder of the same name is not taken for it. */
static const char own[] = "";

/* Function: whole names separated by blanks, a star at the end for a prefix; NULL: all. */
static const struct {
    const char *path, *function;
    enum frame_weight weight;
    enum activity activity;
} rules[] = {
    {"/torch/serialization.py", "save _save _legacy_save", SURE_SAVING},
    {"/torch/serialization.py", NULL, MAYBE_LOADING},
    {"/torch/distributed/checkpoint/", "save* async_save _save*", SURE_SAVING},
    {"-packages/safetensors/", "save*", SURE_SAVING},
    {"/torch/utils/data/", NULL, SURE_LOADING},
    {"/fullbore/loader.py", "__next__ __iter__", SURE_LOADING},
    {"-packages/torchdata/", NULL, SURE_LOADING},
    {"-packages/torchvision/datasets/", NULL, SURE_LOADING},
    {"-packages/torchvision/transforms/", NULL, SURE_LOADING},
    {"-packages/torchvision/io/", NULL, SURE_LOADING},
    {"-packages/torchaudio/datasets/", NULL, SURE_LOADING},
    {"-packages/albumentations/", NULL, SURE_LOADING},
    {"-packages/webdataset/", NULL, SURE_LOADING},
    {"-packages/wids/", NULL, SURE_LOADING},
    {"-packages/litdata/", NULL, SURE_LOADING},
    {"-packages/streaming/", NULL, SURE_LOADING},
    {"-packages/datasets/", NULL, SURE_LOADING},
    {"-packages/grain/", NULL, SURE_LOADING},
    {"-packages/ffcv/", NULL, SURE_LOADING},
    {"-packages/nvidia/dali/", NULL, SURE_LOADING},
    {"-packages/petastorm/", NULL, SURE_LOADING},
    {"-packages/timm/data/", "__iter__ __next__", SURE_LOADING},
    {"-packages/tensorflow/python/data/", NULL, SURE_LOADING},
    {"-packages/tensorflow_datasets/", NULL, SURE_LOADING},
    {"-packages/accelerate/data_loader.py", "__iter__ __next__ _fetch_batches", SURE_LOADING},
    {"/pytorch/loops/fetchers.py", NULL, SURE_LOADING},
    {"/pytorch/utilities/combined_loader.py", NULL, SURE_LOADING},
    {"-packages/pytorch_lightning/loops/fetchers.py", NULL, SURE_LOADING},
    {"-packages/pytorch_lightning/utilities/combined_loader.py", NULL, SURE_LOADING},

    {"/torch/nn/modules/module.py", "state_dict", MAYBE_SAVING},
    {"/torch/optim/optimizer.py", "state_dict", MAYBE_SAVING},
    {"/torch/nn/", NULL, STEP},
    {"/torch/autograd/", NULL, STEP},
    {"/torch/optim/", NULL, STEP},
    {"/torch/amp/", NULL, STEP},
    {"/torch/cuda/", NULL, STEP},
    {"/torch/distributed/", NULL, STEP},
    {"/torch/utils/checkpoint.py", NULL, STEP},
    {"/torch/_dynamo/", NULL, STEP},
    {"/torch/_inductor/", NULL, STEP},
    {"/torch/_functorch/", NULL, STEP},
    {"/torch/_tensor.py", "backward", STEP},
    {"-packages/deepspeed/runtime/", "forward backward step train_batch", STEP},
    {"-packages/jax/", NULL, STEP},
    {"-packages/flax/", NULL, STEP},
    {"-packages/optax/", NULL, STEP},
    {"-packages/tensorflow/python/eager/", NULL, STEP},

    {own, "__getitem__ __getitems__ collate* *_collate collate_fn", SURE_LOADING},
    {own, "<genexpr>", NOTHING},
    {own, "save* write_checkpoint* dump_checkpoint*", MAYBE_SAVING},
    {own, "train_step* training_step* forward* backward* optimizer_step* train_batch* compute_loss* update_weights*", MAYBE_STEP},
    {own, "__next__ __iter__ get_batch* next_batch* load_* make_batch* read_* decode* fetch* augment* preprocess* prefetch*",
     MAYBE_LOADING},

    {"-packages/PIL/", "save*", MAYBE_SAVING},
    {"-packages/PIL/", NULL, MAYBE_LOADING},
    {"-packages/cv2/", NULL, MAYBE_LOADING},
    {"-packages/imageio/", NULL, MAYBE_LOADING},
    {"-packages/skimage/", NULL, MAYBE_LOADING},
    {"-packages/tifffile/", NULL, MAYBE_LOADING},
    {"-packages/soundfile.py", "write", MAYBE_SAVING},
    {"-packages/soundfile.py", NULL, MAYBE_LOADING},
    {"-packages/librosa/", NULL, MAYBE_LOADING},
    {"-packages/torchaudio/", NULL, MAYBE_LOADING},
    {"-packages/h5py/", "__setitem__ create_dataset write_direct flush close", MAYBE_SAVING},
    {"-packages/h5py/", NULL, MAYBE_LOADING},
    {"-packages/zarr/", NULL, MAYBE_LOADING},
    {"-packages/pyarrow/", NULL, MAYBE_LOADING},
    {"-packages/pandas/io/", NULL, MAYBE_LOADING},
    {"-packages/nibabel/", NULL, MAYBE_LOADING},
    {"-packages/pydicom/", NULL, MAYBE_LOADING},
    {"-packages/numpy/lib/", "save* write_array*", MAYBE_SAVING},
    {"-packages/numpy/lib/", "load* read_* genfromtxt fromfile", MAYBE_LOADING},
    {"-packages/numpy/lib/", NULL, NOTHING},
    {"-packages/botocore/", NULL, MAYBE_LOADING},
    {"-packages/fsspec/", NULL, MAYBE_LOADING},
    {"-packages/s3fs/", NULL, MAYBE_LOADING},
    {"-packages/gcsfs/", NULL, MAYBE_LOADING},
    {"/queue.py", "get", MAYBE_LOADING},
    {"/multiprocessing/queues.py", "get", MAYBE_LOADING},
    {"/multiprocessing/connection.py", "recv* _recv* poll _poll wait", MAYBE_LOADING},
    {"/multiprocessing/pool.py", "next __next__ get wait", MAYBE_LOADING},
    {"/concurrent/futures/", "result result_iterator wait as_completed", MAYBE_LOADING},
    {"/tarfile.py", NULL, MAYBE_LOADING},
    {"/zipfile", NULL, MAYBE_LOADING},
    {"/gzip.py", NULL, MAYBE_LOADING},
    {"<frozen importlib", NULL, NEITHER},
    {"<frozen zipimport", NULL, NEITHER},
};

static const char validation_names[] =
    "validate* validation* evaluate* evaluation* eval eval_* val_* test test_epoch* test_loop* test_step* run_validation* run_evaluation*";

/* One word of a list; `length` of it. */
static bool word_fits(const char *word, size_t length, const char *name)
{
    size_t n = strlen(name), part = length - 1;
    if (word[part] == '*')
        return strncmp(name, word, part) == 0;
    if (word[0] == '*')
        return n >= part && strncmp(name + n - part, word + 1, part) == 0;
    return n == length && strncmp(name, word, length) == 0;
}

static bool list_has(const char *list, const char *name)
{
    while (*list) {
        size_t length = strcspn(list, " ");
        if (word_fits(list, length, name))
            return true;
        list += length + strspn(list + length, " ");
    }
    return false;
}

/* The program's own files: neither installed nor part of Python. Code typed in ("<string>") is its own, too. */
static bool is_own_file(const char *file)
{
    return !strstr(file, "-packages/") && !strstr(file, "/lib/python3") && strncmp(file, "<frozen", 7) != 0;
}

struct frame_meaning frame_meaning_of(const char *function, const char *file, bool is_generator)
{
    struct frame_meaning m = {.is_own = is_own_file(file)};
    bool is_torch = strstr(file, "/torch/nn/") || strstr(file, "/torch/utils/data/");
    m.is_validation = !is_torch && (m.is_own || strstr(file, "-packages/")) && list_has(validation_names, function);
    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
        bool fits = rules[i].path == own ? m.is_own : strstr(file, rules[i].path) != NULL;
        if (!fits || (rules[i].function && !list_has(rules[i].function, function)))
            continue;
        m.weight = rules[i].weight;
        m.activity = rules[i].activity;
        return m;
    }
    if (m.is_own && is_generator) {
        m.weight = FRAME_HINT;
        m.activity = ACTIVITY_LOADING;
    }
    return m;
}

void stack_add_frame(struct stack_meaning *s, struct frame_meaning f)
{
    s->is_validation |= f.is_validation;
    if (f.weight <= s->weight)
        return;
    s->weight = f.weight;
    s->activity = f.activity;
}
