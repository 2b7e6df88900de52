#include "dataset/image_names.h"

#include <string.h>
#include <strings.h>

static const char *const decoded[] = {"jpg", "jpeg", "jpe", "jfif", "jif", "pjpeg", "pjpg", "png", "apng", "webp", NULL};

static const char *const not_decoded[] = {"gif", "bmp",  "dib",  "tif",  "tiff", "ppm", "pgm", "pbm", "pnm", "jp2", "j2k", "jpx",
                                          "jxl", "heic", "heif", "avif", "ico",  "svg", "psd", "exr", "hdr", "tga", "dcm", NULL};

static const char *const something_else[] = {
    /* text, tables, notes */
    "txt", "csv", "tsv", "json", "jsonl", "ndjson", "xml", "yaml", "yml", "toml", "ini", "cfg", "conf", "md", "rst", "html", "htm", "log",
    "lst", "tex", "bib", "pdf", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "rtf", "srt", "vtt",
    /* code */
    "py", "pyc", "ipynb", "sh", "c", "h", "cpp", "m", "r", "js", "css", "lua", "go", "rs", "java",
    /* arrays, tables, models */
    "mat", "npy", "npz", "h5", "hdf5", "he5", "hdf", "nc", "pkl", "pickle", "pt", "pth", "ckpt", "onnx", "safetensors", "parquet", "arrow",
    "feather", "tfrecord", "tfrecords", "lmdb", "mdb", "db", "sqlite", "rec", "idx", "bin", "pts", "obj", "ply", "pcd", "nii",
    /* archives */
    "tar", "gz", "tgz", "bz2", "xz", "zst", "zip", "7z", "rar",
    /* sound and film */
    "wav", "wave", "rf64", "bw64", "mp3", "flac", "ogg", "oga", "opus", "aif", "aiff", "aifc", "m4a", "aac", "mp4", "avi", "mkv", "mov",
    "webm", "mpg", "mpeg", "au", "snd", "caf", "w64",
    /* sums, locks, leftovers */
    "md5", "sha1", "sha256", "lock", "tmp", "part", "bak", "catalog", NULL};

const char *image_name_extension(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : "";
}

static bool is_in(const char *extension, const char *const *list)
{
    for (; *list; list++)
        if (strcasecmp(*list, extension) == 0)
            return true;
    return false;
}

enum image_name image_name_kind(const char *name)
{
    const char *extension = image_name_extension(name);
    return is_in(extension, decoded)          ? IMAGE_NAME_YES
           : is_in(extension, something_else) ? IMAGE_NAME_NO
           : is_in(extension, not_decoded)    ? IMAGE_NAME_OTHER
                                              : IMAGE_NAME_UNKNOWN;
}

bool image_sniff(const uint8_t *bytes, size_t n)
{
    static const uint8_t jpeg[] = {0xFF, 0xD8, 0xFF}, png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
    return (n >= sizeof(jpeg) && memcmp(bytes, jpeg, sizeof(jpeg)) == 0) || (n >= sizeof(png) && memcmp(bytes, png, sizeof(png)) == 0) ||
           (n >= 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0);
}
