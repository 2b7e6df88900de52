#include "host/proc/proc_tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "host/proc/proc_file.h"

/* ---- parsing ---- */

bool proc_parse_stat(const char *text, struct proc_stat *s)
{
    const char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close || close < open || strlen(close) < 4)
        return false;
    *s = (struct proc_stat){.state = close[2]};
    snprintf(s->comm, sizeof(s->comm), "%.*s", (int)(close - open - 1), open + 1);
    long long field[19] = {0}; /* from ppid (4) to starttime (22) */
    const char *p = close + 3;
    for (int i = 0; i < 19; i++) {
        char *end;
        field[i] = strtoll(p, &end, 10);
        if (end == p)
            return false;
        p = end;
    }
    s->parent = (pid_t)field[0];
    s->minor_faults = (uint64_t)field[6];
    s->major_faults = (uint64_t)field[8];
    s->system_ticks = (uint64_t)field[11];
    s->start_ticks = (uint64_t)field[18];
    return true;
}

static bool read_stat(const struct proc_tree *t, pid_t pid, struct proc_stat *s)
{
    char path[PATH_MAX], text[1024];
    snprintf(path, sizeof(path), "%s/%d/stat", t->proc, (int)pid);
    return proc_read(AT_FDCWD, path, text, sizeof(text)) > 0 && proc_parse_stat(text, s);
}

static pid_t parse_pid(const char *name)
{
    char *end;
    long n = isdigit((unsigned char)name[0]) ? strtol(name, &end, 10) : 0;
    return n > 0 && n < INT_MAX && !*end ? (pid_t)n : 0;
}

/* ---- the table ---- */

static bool grow(void **data, int *capacity, int count, size_t size, int most)
{
    if (count < *capacity)
        return true;
    int wanted = *capacity ? *capacity * 2 : 16;
    void *more = wanted / 2 < most ? realloc(*data, (size_t)wanted * size) : NULL;
    if (!more)
        return false;
    *data = more;
    *capacity = wanted;
    return true;
}

static struct process *find_process(const struct proc_tree *t, pid_t pid)
{
    for (int i = 0; i < t->processes; i++)
        if (t->process[i].pid == pid && !t->process[i].is_gone)
            return &t->process[i];
    return NULL;
}

/* Only what the command line says about multiprocessing is kept, and a checksum: arguments may hold secrets. */
static void look_at_command(const struct proc_tree *t, struct process *p)
{
    char path[PATH_MAX], text[4096];
    struct stat s;
    snprintf(path, sizeof(path), "%s/%d/exe", t->proc, (int)p->pid);
    p->exe = stat(path, &s) == 0 ? (uint64_t)s.st_ino * 31 + (uint64_t)s.st_dev + 1 : 0;
    snprintf(path, sizeof(path), "%s/%d/cmdline", t->proc, (int)p->pid);
    ssize_t n = proc_read(AT_FDCWD, path, text, sizeof(text));
    if (n <= 0)
        return;
    p->command = checksum_of(text, (size_t)n);
    for (ssize_t i = 0; i < n - 1; i++)
        if (!text[i])
            text[i] = ' ';
    p->says_worker = strstr(text, "spawn_main") || strstr(text, "--multiprocessing-fork");
    p->says_helper = strstr(text, "resource_tracker") || strstr(text, "forkserver") || strstr(text, "torch_shm_manager");
    explicit_bzero(text, sizeof(text));
}

static struct process *add_process(struct proc_tree *t, pid_t pid, const struct proc_stat *s, uint64_t now_ns)
{
    if (!grow((void **)&t->process, &t->capacity, t->processes, sizeof(*t->process), TREE_PROCESSES_MOST)) {
        t->is_cut = true;
        return NULL;
    }
    struct process *p = &t->process[t->processes++];
    *p = (struct process){.pid = pid, .parent = s->parent, .start_ticks = s->start_ticks, .born_ns = now_ns, .is_seen = true};
    look_at_command(t, p);
    return p;
}

static int by_number(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;
    return (x > y) - (x < y);
}

/* A number that was foreign and vanished may come back as ours: only those of the last scan count. */
static bool was_foreign(const struct proc_tree *t, pid_t pid, int known)
{
    return known && bsearch(&pid, t->foreign, (size_t)known, sizeof(pid_t), by_number);
}

static bool add_foreign(pid_t **list, int *count, int *capacity, pid_t pid)
{
    if (!grow((void **)list, capacity, *count, sizeof(pid_t), 1 << 22))
        return false;
    (*list)[(*count)++] = pid;
    return true;
}

static bool is_ours(const struct proc_tree *t, const struct proc_stat *s, pid_t pid)
{
    bool is_root = pid == t->root && s->start_ticks == t->root_start_ticks;
    return is_root || find_process(t, s->parent) || (t->adopts && s->parent == getpid());
}

struct pid_list {
    pid_t *pid;
    int count, capacity;
};

/* One pass over /proc; true: something new was found (its children may have been passed already). Those not ours go into `foreign`. */
static bool scan_once(struct proc_tree *t, uint64_t now_ns, struct pid_list *foreign)
{
    DIR *d = opendir(t->proc);
    pid_t self = getpid();
    bool is_new = false;
    foreign->count = 0;
    if (!d)
        return false;
    for (struct dirent *entry; (entry = readdir(d));) {
        pid_t pid = parse_pid(entry->d_name);
        if (!pid || pid == self || find_process(t, pid))
            continue;
        struct proc_stat s;
        if (was_foreign(t, pid, t->foreigns)) {
            add_foreign(&foreign->pid, &foreign->count, &foreign->capacity, pid);
        } else if (read_stat(t, pid, &s)) {
            if (is_ours(t, &s, pid) && s.state != 'Z' && s.state != 'X')
                is_new |= add_process(t, pid, &s, now_ns) != NULL;
            else
                add_foreign(&foreign->pid, &foreign->count, &foreign->capacity, pid);
        }
    }
    closedir(d);
    return is_new;
}

/* Numbers wrap around, so a child may be listed before its parent: as long as something new is found, newcomers are looked at again. */
static void scan(struct proc_tree *t, uint64_t now_ns)
{
    struct pid_list foreign = {0};
    for (int pass = 0; pass < 8 && scan_once(t, now_ns, &foreign); pass++)
        ;
    if (foreign.count) /* an empty list is NULL, which qsort may not see */
        qsort(foreign.pid, (size_t)foreign.count, sizeof(pid_t), by_number);
    free(t->foreign);
    t->foreign = foreign.pid;
    t->foreigns = foreign.count;
}

/* ---- threads ---- */

static void close_thread(struct proc_thread *th)
{
    int *fd[] = {&th->schedstat_fd, &th->call_fd, &th->io_fd};
    for (int i = 0; i < 3; i++) {
        if (*fd[i] >= 0)
            close(*fd[i]);
        *fd[i] = -1;
    }
}

static int open_in(const struct proc_tree *t, const struct process *p, pid_t tid, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%d/task/%d/%s", t->proc, (int)p->pid, (int)tid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static void read_comm(const struct proc_tree *t, const struct process *p, struct proc_thread *th)
{
    char path[PATH_MAX], text[32];
    snprintf(path, sizeof(path), "%s/%d/task/%d/comm", t->proc, (int)p->pid, (int)th->tid);
    if (proc_read(AT_FDCWD, path, text, sizeof(text)) <= 0)
        return;
    text[strcspn(text, "\n")] = 0;
    snprintf(th->comm, sizeof(th->comm), "%.15s", text);
}

static void add_thread(struct proc_tree *t, struct process *p, pid_t tid, uint64_t now_ns)
{
    if (t->threads >= TREE_THREADS_MOST || !grow((void **)&p->thread, &p->capacity, p->threads, sizeof(*p->thread), TREE_THREADS_MOST)) {
        t->is_cut = true;
        return;
    }
    struct proc_thread *th = &p->thread[p->threads++];
    *th = (struct proc_thread){.tid = tid, .is_seen = true, .role = ROLE_OTHER, .born_ns = now_ns, .wait = WAIT_UNKNOWN};
    th->schedstat_fd = open_in(t, p, tid, "schedstat");
    th->call_fd = open_in(t, p, tid, "syscall");
    th->io_fd = open_in(t, p, tid, "io");
    read_comm(t, p, th);
    t->threads++;
}

static struct proc_thread *find_thread(struct process *p, pid_t tid)
{
    for (int i = 0; i < p->threads; i++)
        if (p->thread[i].tid == tid && !p->thread[i].is_gone)
            return &p->thread[i];
    return NULL;
}

static void list_threads(struct proc_tree *t, struct process *p, uint64_t now_ns)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%d/task", t->proc, (int)p->pid);
    DIR *d = opendir(path);
    if (!d)
        return;
    for (int i = 0; i < p->threads; i++)
        p->thread[i].is_seen = false;
    for (struct dirent *entry; (entry = readdir(d));) {
        pid_t tid = parse_pid(entry->d_name);
        struct proc_thread *th = tid ? find_thread(p, tid) : NULL;
        if (th)
            th->is_seen = true;
        else if (tid)
            add_thread(t, p, tid, now_ns);
    }
    closedir(d);
    for (int i = 0; i < p->threads; i++)
        p->thread[i].is_gone |= !p->thread[i].is_seen;
}

/* The link count of task/ tells how many threads there are, so an unchanged process costs one stat. */
static void update_threads(struct proc_tree *t, struct process *p, uint64_t now_ns)
{
    char path[PATH_MAX];
    struct stat s;
    snprintf(path, sizeof(path), "%s/%d/task", t->proc, (int)p->pid);
    if (stat(path, &s) < 0) {
        p->is_gone = true;
        return;
    }
    bool has_gone = false;
    for (int i = 0; i < p->threads; i++) {
        has_gone |= p->thread[i].is_gone;
        struct proc_thread *th = &p->thread[i];
        if (th->name_looks < 6 && now_ns - th->born_ns >= (uint64_t)100000000 << th->name_looks) {
            read_comm(t, p, th); /* names are given after the start: looked at again after 0.1, 0.2 ... 3.2 s */
            th->name_looks++;
        }
    }
    if (p->is_listed && s.st_nlink == p->task_links && !has_gone)
        return;
    p->task_links = s.st_nlink;
    p->is_listed = true;
    list_threads(t, p, now_ns);
}

/* ---- life ---- */

static void check_alive(struct proc_tree *t, struct process *p)
{
    struct proc_stat s;
    if (!read_stat(t, p->pid, &s) || s.start_ticks != p->start_ticks || s.state == 'Z' || s.state == 'X')
        p->is_gone = true;
    else
        p->parent = s.parent;
}

static void count_workers(struct proc_tree *t)
{
    for (int i = 0; i < t->processes; i++) {
        struct process *p = &t->process[i];
        if (p->kind == PROCESS_WORKER && !p->was_worker && !p->is_gone) {
            p->was_worker = true;
            t->births++;
        }
    }
}

void proc_tree_update(struct proc_tree *t, uint64_t now_ns)
{
    for (int i = 0; i < t->processes; i++)
        if (!t->process[i].is_gone)
            check_alive(t, &t->process[i]);
    scan(t, now_ns);
    for (int i = 0; i < t->processes; i++) {
        struct process *p = &t->process[i];
        if (p->is_gone)
            continue;
        if (now_ns - p->born_ns < 3000000000u)
            look_at_command(t, p); /* fork first, exec later */
        update_threads(t, p, now_ns);
    }
    proc_tree_assign_roles(t);
    count_workers(t);
}

static void forget_threads(struct proc_tree *t, struct process *p)
{
    int kept = 0;
    for (int i = 0; i < p->threads; i++) {
        if (p->thread[i].is_gone || p->is_gone) {
            close_thread(&p->thread[i]);
            t->threads--;
        } else {
            p->thread[kept++] = p->thread[i];
        }
    }
    p->threads = kept;
}

void proc_tree_forget_gone(struct proc_tree *t)
{
    int kept = 0;
    for (int i = 0; i < t->processes; i++) {
        struct process *p = &t->process[i];
        forget_threads(t, p);
        if (p->is_gone) {
            t->deaths += p->was_worker;
            free(p->thread);
        } else {
            t->process[kept++] = *p;
        }
    }
    t->processes = kept;
}

int proc_tree_open(struct proc_tree *t, const char *proc, pid_t root, struct fb_error *e)
{
    *t = (struct proc_tree){.proc = proc, .root = root};
    struct proc_stat s;
    if (!read_stat(t, root, &s))
        return error_advise(e, error_set(e, FB_E_NOT_FOUND, "watch", "there is no process %d that this user can see", (int)root),
                            "check the number with ps; in a container, use the number inside its own namespace");
    t->root_start_ticks = s.start_ticks;
    if (!add_process(t, root, &s, 0))
        return error_set(e, FB_E_NOMEM, "watch", "no memory");
    return 0;
}

void proc_tree_close(struct proc_tree *t)
{
    for (int i = 0; i < t->processes; i++)
        t->process[i].is_gone = true;
    proc_tree_forget_gone(t);
    free(t->process);
    free(t->foreign);
    *t = (struct proc_tree){0};
}
