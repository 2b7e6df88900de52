/* Who does what: roles by name where a name is given, else by behaviour.
 *
 * PyTorch calls its worker processes pt_data_worker and its pinning thread pt_data_pin, fullbore's threads start with fb-. Without names, a
 * child that runs its parent's program is a worker (multiprocessing), and a thread of the trainer that reads data is a loader. A thread
 * that only computes cannot be told from a helper of the model, and counts as one: better a loader missed than a model accused.
 */
#include <string.h>

#include "host/proc/proc_tree.h"

/* Bytes that a thread of the trainer must have read before it counts as a loader; imports in a thread stay below. */
static const uint64_t loader_read_bytes = 128 << 10;

static const struct process *parent_of(const struct proc_tree *t, const struct process *p)
{
    for (int i = 0; i < t->processes; i++)
        if (t->process[i].pid == p->parent && !t->process[i].is_gone)
            return &t->process[i];
    return NULL;
}

static bool has_name(const struct process *p, const char *prefix)
{
    for (int i = 0; i < p->threads; i++)
        if (strncmp(p->thread[i].comm, prefix, strlen(prefix)) == 0)
            return true;
    return false;
}

/* A subshell looks like a worker of its shell. */
static bool is_shell(const struct process *p)
{
    static const char *const names[] = {"sh", "bash", "dash", "zsh", "fish", "make"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (p->threads && strcmp(p->thread[0].comm, names[i]) == 0)
            return true;
    return false;
}

static bool is_worker(const struct proc_tree *t, const struct process *p)
{
    if (p->threads && strncmp(p->thread[0].comm, "pt_data_worker", 14) == 0)
        return true;
    if (p->says_helper || p->pid == t->root)
        return false;
    const struct process *parent = parent_of(t, p);
    if (!parent || !parent->exe || parent->exe != p->exe)
        return p->was_worker; /* the trainer may have ended first */
    return p->says_worker || (p->command && p->command == parent->command && !is_shell(parent));
}

static uint64_t cpu_of(const struct process *p)
{
    uint64_t sum = p->cpu_sum_ns;
    for (int i = 0; i < p->threads; i++)
        sum += p->thread[i].cpu_sum_ns;
    return sum;
}

static bool has_workers(const struct proc_tree *t, const struct process *p)
{
    for (int i = 0; i < t->processes; i++)
        if (t->process[i].kind == PROCESS_WORKER && t->process[i].parent == p->pid)
            return true;
    return false;
}

/* Trainers: parents of workers; else the busiest, and its siblings that run the same command (ranks). */
static void find_trainers(struct proc_tree *t)
{
    struct process *busiest = NULL;
    bool has_sure = false;
    for (int i = 0; i < t->processes; i++) {
        struct process *p = &t->process[i];
        if (p->kind == PROCESS_WORKER || p->is_gone || p->says_helper)
            continue;
        bool is_sure = has_workers(t, p) || has_name(p, "fb-w") || has_name(p, "fb-plan");
        p->kind = is_sure ? PROCESS_TRAINER : p->kind;
        has_sure |= p->kind == PROCESS_TRAINER && is_sure;
        if (!busiest || cpu_of(p) > cpu_of(busiest))
            busiest = p;
    }
    if (has_sure || !busiest)
        return;
    for (int i = 0; i < t->processes; i++) {
        struct process *p = &t->process[i];
        bool is_rank = p->parent == busiest->parent && p->command == busiest->command && p->exe == busiest->exe;
        if (p->kind != PROCESS_WORKER)
            p->kind = p == busiest || is_rank ? PROCESS_TRAINER : PROCESS_OTHER;
    }
}

/* Reads data, from storage or from the network. */
static bool behaves_like_loader(const struct proc_thread *th)
{
    return th->read_sum > loader_read_bytes || th->waited[WAIT_NETWORK] + th->waited[WAIT_FILE] + th->waited[WAIT_REMOTE_FILE] >= 3;
}

static enum role role_in_trainer(const struct process *p, const struct proc_thread *th)
{
    if (th->tid == p->pid)
        return ROLE_CONSUMER;
    if (strncmp(th->comm, "pt_data_pin", 11) == 0)
        return ROLE_PIN;
    if (strncmp(th->comm, "fb-", 3) == 0)
        return strncmp(th->comm, "fb-w", 4) == 0 || strncmp(th->comm, "fb-r", 4) == 0 || strncmp(th->comm, "fb-io", 5) == 0 ? ROLE_LOADER
                                                                                                                            : ROLE_OTHER;
    if (th->role == ROLE_LOADER || behaves_like_loader(th))
        return ROLE_LOADER;
    return ROLE_COMPUTE;
}

/* A worker's first thread is the worker; others count once they do a tenth of its work (feeders and idle pools do not). */
static enum role role_in_worker(const struct process *p, const struct proc_thread *th)
{
    if (th->tid == p->pid)
        return ROLE_LOADER;
    return th->cpu_sum_ns * 10 > p->thread[0].cpu_sum_ns && th->cpu_sum_ns > 100000000u ? ROLE_LOADER : ROLE_OTHER;
}

void proc_tree_assign_roles(struct proc_tree *t)
{
    for (int i = 0; i < t->processes; i++) {
        struct process *p = &t->process[i];
        bool works = is_worker(t, p);
        if (works || p->kind == PROCESS_WORKER)
            p->kind = works ? PROCESS_WORKER : PROCESS_OTHER; /* a child is its parent's twin until it starts another program */
    }
    find_trainers(t);
    for (int i = 0; i < t->processes; i++) {
        struct process *p = &t->process[i];
        for (int k = 0; k < p->threads; k++) {
            struct proc_thread *th = &p->thread[k];
            th->role = p->kind == PROCESS_TRAINER ? role_in_trainer(p, th) : p->kind == PROCESS_WORKER ? role_in_worker(p, th) : ROLE_OTHER;
        }
    }
}
