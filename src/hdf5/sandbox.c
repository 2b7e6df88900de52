/* The rights that the program drops before it opens any file.
 *
 * libhdf5 reads bytes from strangers; suppose one of them has taken it over. Then it has no secrets to tell (an empty environment, no
 * descriptors but its own), nobody to tell them to (no sockets), and nothing to break (no writing, no programs, no signals to others). In
 * layers, each of which is left out without a word where the kernel has none:
 *
 *   limits      memory, files, processes, core dumps (setrlimit); no new privileges, and of root's only those that open files
 *   seccomp     a list of the system calls that the work needs; everything else is EPERM. Files are opened for reading only (RECHUNK has to
 *               open its target again: Landlock sees to it that it opens nothing else), memory never becomes code
 *   Landlock    (Linux 5.13) no file is written, made, renamed or removed, but the one that is descriptor 3; no TCP (6.7)
 *
 * Reading is not restricted to one file: which one is asked for comes later, and it may refer to others. Sanitizers need system calls of
 * their own: with one, only the limits hold. The list is for x86-64 and AArch64.
 */
#include "hdf5/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { HAS_SANITIZER = 1 }; /* their shadow memory is larger than any limit */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { HAS_SANITIZER = 1 };
#else
enum { HAS_SANITIZER = 0 };
#endif
#else
enum { HAS_SANITIZER = 0 };
#endif

enum { MAX_FILES = 32, TARGET = 3 };
static const rlim_t max_memory = (rlim_t)4 << 30;

/* ---- limits ---- */

static void limit(int what, rlim_t value)
{
    struct rlimit old;
    if (getrlimit(what, &old) == 0 && old.rlim_max < value)
        value = old.rlim_max;
    setrlimit(what, &(struct rlimit){value, value});
}

/* The host has passed on next to nothing already; this is for whoever starts the program otherwise. */
static void clear_environment(void)
{
    clearenv();
    setenv("LC_ALL", "C", 1);
    setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1);
    setenv("HDF5_PLUGIN_PRELOAD", "::", 1); /* libhdf5's word for "none": no code that a file could name */
    setenv("HDF5_PLUGIN_PATH", "", 1);
}

/* Root in a container reads data of other users, which takes a privilege. With the others it could look into its host: Landlock keeps
 * /proc/PID/environ shut, but not from who has CAP_PERFMON. */
static void drop_privileges(void)
{
    const uint32_t kept = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    if (syscall(SYS_capget, &header, data) < 0)
        return;
    data[0].effective &= kept;
    data[0].permitted &= kept;
    data[0].inheritable = 0;
    data[1] = (struct __user_cap_data_struct){0};
    syscall(SYS_capset, &header, data);
}

void sandbox_limits(enum sandbox_kind kind)
{
    clear_environment();
    close_range(kind == SANDBOX_READ ? 3 : TARGET + 1, UINT_MAX, 0); /* what the host had open */
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    drop_privileges();
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_NOFILE, MAX_FILES);
    if (kind == SANDBOX_READ)
        limit(RLIMIT_FSIZE, 0);
    if (kind != SANDBOX_RECHUNK)
        limit(RLIMIT_NPROC, 0); /* counts the user's processes everywhere, so threads cannot be allowed by it */
    if (!HAS_SANITIZER)
        limit(RLIMIT_AS, max_memory);
}

/* The soft limit moves ahead of what has been used. */
void sandbox_cpu(uint32_t seconds)
{
    struct rusage used;
    struct rlimit l;
    if (getrusage(RUSAGE_SELF, &used) < 0 || getrlimit(RLIMIT_CPU, &l) < 0)
        return;
    l.rlim_cur = (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + seconds + 1;
    if (l.rlim_cur > l.rlim_max)
        l.rlim_cur = l.rlim_max;
    setrlimit(RLIMIT_CPU, &l);
}

/* ---- the end of the host ---- */

static void look_at_socket(int signal_number)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLRDHUP};
    (void)signal_number;
    if (poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)))
        _exit(0);
}

/* A reader serves all threads of its host, and PR_SET_PDEATHSIG means the thread that started it, which may end long before: so it is the
 * socket that tells, by a signal whenever something happens to it. The others work for one thread that waits for them. */
void sandbox_tie(enum sandbox_kind kind, pid_t host)
{
    if (kind == SANDBOX_READ) {
        struct sigaction look = {.sa_handler = look_at_socket, .sa_flags = SA_RESTART};
        sigaction(SIGIO, &look, NULL);
        fcntl(STDIN_FILENO, F_SETOWN, getpid());
        fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_ASYNC);
        look_at_socket(SIGIO); /* it may have happened before */
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (host > 0 && getppid() != host) /* it ended before that */
        _exit(1);
}

/* ---- Landlock ---- */

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

/* As in linux/landlock.h, which may be older than the kernel. */
struct ruleset {
    uint64_t files, network, scope;
};
struct beneath {
    uint64_t allowed;
    int32_t fd;
} __attribute__((packed));

enum {
    WRITE_FILE = 1 << 1,
    REMOVE_AND_MAKE = 0x1ff << 4,
    REFER = 1 << 13,
    TRUNCATE = 1 << 14,
    DEVICE = 1 << 15,
    EXECUTE = 1 << 0,
    TCP = 3,
    SCOPES = 3,
    RULE_BENEATH = 1,
    ASK_VERSION = 1
};

static void shut_files(enum sandbox_kind kind)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, ASK_VERSION);
    if (version < 1)
        return;
    struct ruleset r = {.files = EXECUTE | WRITE_FILE | REMOVE_AND_MAKE};
    r.files |= version >= 2 ? REFER : 0;
    r.files |= version >= 3 ? TRUNCATE : 0;
    r.files |= version >= 5 ? DEVICE : 0;
    r.network = version >= 4 ? TCP : 0;
    r.scope = version >= 6 ? SCOPES : 0; /* signals and abstract sockets of others */
    int rules = (int)syscall(SYS_landlock_create_ruleset, &r, sizeof(r.files) * (version >= 6 ? 3 : version >= 4 ? 2 : 1), 0);
    if (rules < 0)
        return;
    struct beneath target = {r.files & (WRITE_FILE | TRUNCATE), TARGET};
    if (kind == SANDBOX_READ || syscall(SYS_landlock_add_rule, rules, RULE_BENEATH, &target, 0) == 0)
        syscall(SYS_landlock_restrict_self, rules, 0);
    close(rules);
}

/* ---- seccomp ---- */

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#endif

#ifdef OWN_ARCH

#ifndef SYS_clone3
#define SYS_clone3 435
#endif

enum { FOR_ALL = 7, FOR_READ = 1 << SANDBOX_READ, FOR_ADOPT = 1 << SANDBOX_ADOPT, FOR_RECHUNK = 1 << SANDBOX_RECHUNK };

/* The often used ones first: the list is walked for every call. */
static const struct {
    int number;
    unsigned kinds;
} allowed[] = {
    {SYS_pread64, FOR_ALL},
    {SYS_read, FOR_ALL},
    {SYS_pwrite64, FOR_ADOPT | FOR_RECHUNK},
    {SYS_write, FOR_ALL},
    {SYS_recvfrom, FOR_READ},
    {SYS_sendto, FOR_READ},
    {SYS_brk, FOR_ALL},
    {SYS_munmap, FOR_ALL},
    {SYS_mremap, FOR_ALL},
    {SYS_madvise, FOR_ALL},
    {SYS_close, FOR_ALL},
    {SYS_fstat, FOR_ALL},
    {SYS_newfstatat, FOR_ALL},
    {SYS_statx, FOR_ALL},
    {SYS_lseek, FOR_ALL},
    {SYS_futex, FOR_ALL},
    {SYS_getrusage, FOR_ALL},
    {SYS_clock_gettime, FOR_ALL},
    {SYS_gettimeofday, FOR_ALL},
    {SYS_getrandom, FOR_ALL},
    {SYS_getcwd, FOR_READ | FOR_RECHUNK},
    {SYS_readlinkat, FOR_READ | FOR_RECHUNK},
    {SYS_faccessat, FOR_READ | FOR_RECHUNK},
    {SYS_ppoll, FOR_ALL},
    {SYS_uname, FOR_ALL},
    {SYS_sysinfo, FOR_ALL},
    {SYS_getpid, FOR_ALL},
    {SYS_gettid, FOR_ALL},
    {SYS_getppid, FOR_ALL},
    {SYS_getuid, FOR_ALL},
    {SYS_geteuid, FOR_ALL},
    {SYS_sched_yield, FOR_ALL},
    {SYS_sched_getaffinity, FOR_ALL},
    {SYS_rt_sigaction, FOR_ALL},
    {SYS_rt_sigprocmask, FOR_ALL},
    {SYS_rt_sigreturn, FOR_ALL},
    {SYS_sigaltstack, FOR_ALL},
    {SYS_restart_syscall, FOR_ALL},
    {SYS_exit, FOR_ALL},
    {SYS_exit_group, FOR_ALL},
    {SYS_ftruncate, FOR_ADOPT | FOR_RECHUNK},
    {SYS_fallocate, FOR_ADOPT | FOR_RECHUNK},
    {SYS_fsync, FOR_ADOPT | FOR_RECHUNK},
    {SYS_fdatasync, FOR_ADOPT | FOR_RECHUNK},
    {SYS_set_robust_list, FOR_RECHUNK},
    {SYS_rseq, FOR_RECHUNK},
    {SYS_set_tid_address, FOR_RECHUNK},
    {SYS_clock_nanosleep, FOR_RECHUNK},
#ifdef __x86_64__
    {SYS_poll, FOR_ALL},
    {SYS_stat, FOR_READ | FOR_RECHUNK},
    {SYS_lstat, FOR_READ | FOR_RECHUNK},
    {SYS_readlink, FOR_READ | FOR_RECHUNK},
    {SYS_access, FOR_READ | FOR_RECHUNK},
    {SYS_getrlimit, FOR_ALL},
    {SYS_setrlimit, FOR_ALL},
    {SYS_time, FOR_ALL},
#endif
};
enum { ALLOWED = sizeof(allowed) / sizeof(allowed[0]), MOST = 2 * ALLOWED + 64 };

struct program {
    struct sock_filter line[MOST];
    unsigned short count;
};

static void put(struct program *p, struct sock_filter line)
{
    p->line[p->count++] = line;
}

static void load(struct program *p, size_t offset)
{
    put(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

/* The low half, which is all that flags have; both supported kinds of machine are little-endian. */
static void load_argument(struct program *p, int i)
{
    load(p, offsetof(struct seccomp_data, args) + 8 * (size_t)i);
}

static void answer(struct program *p, uint32_t verdict)
{
    put(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict));
}

enum { NO = SECCOMP_RET_ERRNO | EPERM, NOT_THERE = SECCOMP_RET_ERRNO | ENOSYS };

static void allow(struct program *p, int number)
{
    put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1));
    answer(p, SECCOMP_RET_ALLOW);
}

/* `number` is allowed if none of `bits` (or, with is_all, all of them) are set in its argument i. */
static void allow_flags(struct program *p, int number, int i, uint32_t bits, bool is_all)
{
    put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 5));
    load_argument(p, i);
    put(p, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits));
    put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, is_all ? bits : 0, 0, 1));
    answer(p, SECCOMP_RET_ALLOW);
    answer(p, NO);
}

/* `number` is allowed if its argument i is that. */
static void allow_value(struct program *p, int number, int i, uint32_t value)
{
    put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 4));
    load_argument(p, i);
    put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    answer(p, SECCOMP_RET_ALLOW);
    answer(p, NO);
}

static void write_filter(struct program *p, enum sandbox_kind kind)
{
    const uint32_t changes = O_ACCMODE | O_CREAT | O_TRUNC;
    load(p, offsetof(struct seccomp_data, arch));
    put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 1, 0));
    answer(p, SECCOMP_RET_KILL_PROCESS); /* system calls of another kind of machine have other numbers */
    load(p, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < ALLOWED; i++)
        if (allowed[i].kinds & 1u << kind)
            allow(p, allowed[i].number);
    allow_flags(p, SYS_mmap, 2, PROT_EXEC, false);
    allow_flags(p, SYS_mprotect, 2, PROT_EXEC, false);
    if (kind != SANDBOX_ADOPT)
        allow_flags(p, SYS_openat, 2, kind == SANDBOX_READ ? changes : 0, false);
#ifdef __x86_64__
    if (kind != SANDBOX_ADOPT)
        allow_flags(p, SYS_open, 1, kind == SANDBOX_READ ? changes : 0, false);
#endif
    allow_value(p, SYS_tgkill, 0, (uint32_t)getpid()); /* abort() */
    allow_value(p, SYS_prlimit64, 0, 0);               /* its own limits */
    if (kind == SANDBOX_RECHUNK) {
        allow_flags(p, SYS_clone, 0, CLONE_VM | CLONE_SIGHAND | CLONE_THREAD, true); /* threads, no processes */
        put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1));
        answer(p, NOT_THERE); /* its flags cannot be seen; the C library falls back to clone */
    }
    answer(p, NO);
}

static void shut_calls(enum sandbox_kind kind)
{
    static struct program p;
    p.count = 0;
    write_filter(&p, kind);
    struct sock_fprog program = {.len = p.count, .filter = p.line};
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

#else

static void shut_calls(enum sandbox_kind kind)
{
    (void)kind;
}

#endif

void sandbox_shut(enum sandbox_kind kind)
{
    if (HAS_SANITIZER)
        return;
    shut_files(kind);
    shut_calls(kind);
}
