#include "host/python/py_process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host/proc/proc_file.h"
#include "host/python/elf_symbols.h"
#include "host/python/py_stack.h"

enum { PROCESSES_MOST = 64, TRIES = 8, MAPS_LINES_MOST = 50000, FAILURES_MOST = 200 };

/* A program may become another one (exec), and an interpreter takes a while to start: the tries come ever later. */
static const uint64_t first_try_ns = 200000000, unasked_ns = 60000000000;

struct py_process {
    pid_t pid;
    uint64_t start_ticks;
    uint64_t native_id;
    int tries, failures;
    uint64_t try_at_ns; /* the next one */
    uint64_t asked_ns;  /* the last look that was asked for */
    bool is_denied;
    struct py_stack *stack; /* NULL: no interpreter was found yet */
};

struct py_processes {
    const char *proc;
    struct py_process process[PROCESSES_MOST];
    int count, denied;
};

/* ---- memory ---- */

static bool read_process(void *ctx, uint64_t address, void *out, size_t size)
{
    struct py_process *p = ctx;
    struct iovec here = {out, size}, there = {(void *)(uintptr_t)address, size};
    if (process_vm_readv(p->pid, &here, 1, &there, 1, 0) == (ssize_t)size)
        return true;
    p->is_denied |= errno == EPERM || errno == ENOSYS;
    return false;
}

/* ---- the interpreter ---- */

struct mapped_file {
    uint64_t base, inode; /* where its first byte is mapped; its number in its file system */
    char path[PATH_MAX];
};

/* "55d0a8e00000-55d0a8e01000 r--p 00000000 fe:00 1234    /usr/bin/python3.11" */
static bool parse_mapping(char *line, struct mapped_file *f)
{
    uint64_t offset;
    int path_at = 0;
    if (sscanf(line, "%" SCNx64 "-%*x %*4s %" SCNx64 " %*s %" SCNu64 " %n", &f->base, &offset, &f->inode, &path_at) != 3 || !path_at ||
        offset || line[path_at] != '/')
        return false;
    snprintf(f->path, sizeof(f->path), "%s", line + path_at);
    f->path[strcspn(f->path, "\n")] = 0;
    return true;
}

static const char *name_of(const char *path)
{
    return strrchr(path, '/') + 1;
}

/* "libpython3.11.so.1.0", "python3.10" -> 0x030B, 0x030A; 0: the name does not tell. */
static unsigned version_in_name(const char *name)
{
    const char *at = strstr(name, "python3.");
    unsigned minor = at ? (unsigned)strtoul(at + 8, NULL, 10) : 0;
    return minor > 0 && minor < 256 ? 0x0300 | minor : 0;
}

/* `inode` 0: any regular file will do. */
static int open_regular(const char *path, uint64_t inode)
{
    struct stat s;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && (!inode || inode == s.st_ino)))
        return fd;
    close(fd);
    return -1;
}

/* The path of a program in another mount namespace (a container) is that namespace's own; that of one with another root only (chroot) is
 * ours, and there the number must fit. Union file systems tell other numbers than those of the mapping. */
static int open_mapped(const struct py_processes *w, const struct py_process *p, const struct mapped_file *f)
{
    char inside[PATH_MAX + 64];
    snprintf(inside, sizeof(inside), "%s/%d/root%s", w->proc, (int)p->pid, f->path);
    int fd = open_regular(inside, 0);
    return fd >= 0 ? fd : open_regular(f->path, f->inode);
}

/* From 3.11 on a symbol has the version, before only the name of the file. */
static bool take_layout(struct py_stack *s, uint64_t version_at, const char *name)
{
    uint64_t hex;
    uint8_t told[LAYOUT_TOLD];
    unsigned version = version_in_name(name);
    if (version_at && memory_pointer(&s->view, version_at, &hex))
        version = (unsigned)(hex >> 16 & 0xffff);
    if (version < 0x030D)
        return py_layout_of(version, &s->layout);
    return memory_copy(&s->view, s->runtime, told, sizeof(told)) && py_layout_told(told, version, &s->layout);
}

/* Is the interpreter in this file? */
static bool take_file(const struct py_processes *w, struct py_process *p, const struct mapped_file *f, struct py_stack *s)
{
    struct elf_symbol wanted[] = {{"_PyRuntime", 0}, {"PyCode_Type", 0}, {"Py_Version", 0}};
    bool is_fixed = false;
    int fd = open_mapped(w, p, f);
    if (fd < 0)
        return false;
    bool good = elf_find_symbols(fd, wanted, 3, &is_fixed);
    close(fd);
    if (!good || !wanted[0].value || !wanted[1].value)
        return false;
    uint64_t bias = is_fixed ? 0 : f->base;
    *s = (struct py_stack){.view = {.read = read_process, .ctx = p}};
    s->runtime = bias + wanted[0].value;
    s->code_type = bias + wanted[1].value;
    return take_layout(s, wanted[2].value ? bias + wanted[2].value : 0, name_of(f->path));
}

/* The interpreter is in libpython, where there is one; else in the program itself. */
static bool search_maps(const struct py_processes *w, struct py_process *p, struct py_stack *s)
{
    char path[PATH_MAX];
    struct mapped_file f, program = {0};
    bool has_found = false;
    char *line = NULL;
    size_t capacity = 0;
    snprintf(path, sizeof(path), "%s/%d/maps", w->proc, (int)p->pid);
    FILE *maps = fopen(path, "re");
    for (int i = 0; maps && !has_found && i < MAPS_LINES_MOST && getline(&line, &capacity, maps) > 0; i++) {
        if (!parse_mapping(line, &f))
            continue;
        if (!program.base)
            program = f; /* comes first */
        has_found = strstr(name_of(f.path), "libpython3") && take_file(w, p, &f, s);
    }
    free(line);
    if (maps)
        fclose(maps);
    return has_found || (program.base && take_file(w, p, &program, s));
}

/* Another user's process is left alone, even where the kernel would allow it. */
static bool is_ours(const struct py_processes *w, const struct py_process *p)
{
    char path[PATH_MAX];
    struct stat s;
    snprintf(path, sizeof(path), "%s/%d", w->proc, (int)p->pid);
    return stat(path, &s) == 0 && s.st_uid == geteuid();
}

/* The number of the process in its own namespace: the last one of the line. */
static uint64_t own_number(const struct py_processes *w, pid_t pid)
{
    char path[PATH_MAX], text[4096];
    uint64_t number[32];
    snprintf(path, sizeof(path), "%s/%d/status", w->proc, (int)pid);
    if (proc_read(AT_FDCWD, path, text, sizeof(text)) <= 0)
        return (uint64_t)pid;
    const char *line = strstr(text, "\nNSpid:");
    int n = line ? proc_numbers(line + 7, number, 32) : 0;
    return n > 0 ? number[n - 1] : (uint64_t)pid;
}

static void try_to_find(struct py_processes *w, struct py_process *p, uint64_t now_ns)
{
    if (now_ns < p->try_at_ns)
        return;
    p->try_at_ns = now_ns + (first_try_ns << p->tries);
    p->tries += p->tries < TRIES; /* a shell may still become Python: from then on seldom, not never */
    p->is_denied = !is_ours(w, p);
    w->denied = p->is_denied ? EPERM : w->denied;
    struct py_stack *s = p->is_denied ? NULL : malloc(sizeof(*s));
    if (s && search_maps(w, p, s)) {
        p->native_id = own_number(w, p->pid);
        p->stack = s;
    } else {
        free(s);
    }
}

/* ---- looking ---- */

static void forget(struct py_process *p)
{
    free(p->stack);
    p->stack = NULL;
    p->failures = 0;
}

static bool is_free(const struct py_process *p, pid_t pid, uint64_t now_ns)
{
    return p->pid == pid || now_ns - p->asked_ns > unasked_ns;
}

/* Numbers are reused; the place of a process that has not been asked for in a while is taken by the next one. */
static struct py_process *place_of(struct py_processes *w, pid_t pid, uint64_t start_ticks, uint64_t now_ns)
{
    struct py_process *p = NULL;
    for (int i = 0; i < w->count; i++) {
        struct py_process *q = &w->process[i];
        if (q->pid == pid && q->start_ticks == start_ticks)
            return q;
        if (!p && is_free(q, pid, now_ns))
            p = q;
    }
    if (!p && w->count == PROCESSES_MOST)
        return NULL;
    p = p ? p : &w->process[w->count++];
    forget(p);
    *p = (struct py_process){.pid = pid, .start_ticks = start_ticks};
    return p;
}

bool py_processes_look(struct py_processes *w, pid_t pid, uint64_t start_ticks, uint64_t now_ns, struct stack_meaning *out)
{
    struct py_process *p = place_of(w, pid, start_ticks, now_ns);
    if (!p)
        return false;
    p->asked_ns = now_ns;
    if (!p->stack)
        try_to_find(w, p, now_ns);
    bool is_known = p->stack && (p->stack->thread || py_stack_find_thread(p->stack, p->native_id)) && py_stack_look(p->stack, out);
    if (p->is_denied)
        w->denied = EPERM;
    else if (is_known)
        w->denied = 0; /* it has become this user's program since */
    p->failures = is_known ? 0 : p->failures + (p->stack != NULL);
    if (p->is_denied || p->failures > FAILURES_MOST)
        forget(p); /* it may have become another program */
    return is_known;
}

int py_processes_denied(const struct py_processes *w)
{
    return w ? w->denied : 0;
}

struct py_processes *py_processes_open(const char *proc)
{
    struct py_processes *w = calloc(1, sizeof(*w));
    if (w)
        w->proc = proc;
    return w;
}

void py_processes_close(struct py_processes *w)
{
    for (int i = 0; w && i < w->count; i++)
        forget(&w->process[i]);
    free(w);
}
