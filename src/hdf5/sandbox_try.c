/* `fullbore-hdf5 try KIND FOLDER`: behind the doors that real work is done behind, tries everything that must not be possible, and says
 * what came of it: a line each, "ok" or an errno. `try spin-KIND FOLDER HOST` computes until somebody ends it. For tests only. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hdf5/sandbox.h"

static char victim[4096], made[4096], program[4096];

static void say(const char *name, long rc)
{
    if (rc >= 0)
        printf("%s ok\n", name);
    else
        printf("%s errno-%d\n", name, errno);
}

static long connect_somewhere(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return connect(STDIN_FILENO, (struct sockaddr *)&a, sizeof(a));
}

static long bind_somewhere(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = ""};
    return bind(STDIN_FILENO, (struct sockaddr *)&a, sizeof(a));
}

static long fork_once(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    if (child > 0)
        waitpid(child, NULL, 0);
    return child;
}

static long make_code(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0;
}

static long make_code_later(void)
{
    void *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return m == MAP_FAILED ? 0 : mprotect(m, 4096, PROT_READ | PROT_EXEC);
}

static long write_memory_of_host(void)
{
    char byte = 0;
    struct iovec here = {&byte, 1}, there = {&byte, 1};
    return process_vm_readv(getppid(), &here, 1, &there, 1, 0);
}

static long open_environment_of_host(void)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)getppid());
    return open(path, O_RDONLY);
}

static long open_by_struct(void)
{
    uint64_t how[3] = {O_RDONLY, 0, 0};
    return syscall(437 /* openat2 */, AT_FDCWD, victim, how, sizeof(how));
}

static void *nothing(void *arg)
{
    return arg;
}

static long start_thread(void)
{
    pthread_t t;
    int rc = pthread_create(&t, NULL, nothing, NULL);
    if (rc == 0)
        pthread_join(t, NULL);
    errno = rc;
    return rc ? -1 : 0;
}

static void try_network(void)
{
    char zeros[256] = {0};
    say("socket", socket(AF_INET, SOCK_STREAM, 0));
    say("unix_socket", socket(AF_UNIX, SOCK_STREAM, 0));
    say("connect", connect_somewhere());
    say("bind", bind_somewhere());
    say("io_uring", syscall(425, 4, zeros));
}

static void try_processes(void)
{
    char *const argv[] = {program, NULL};
    char zeros[256] = {0};
    say("fork", fork_once());
    say("exec", execve(program, argv, NULL));
    say("ptrace", ptrace(PTRACE_SEIZE, getppid(), NULL, NULL));
    say("process_vm", write_memory_of_host());
    say("host_environ", open_environment_of_host());
    say("kill_parent", kill(getppid(), 0));
    say("code", make_code());
    say("code_later", make_code_later());
    say("keyring", syscall(SYS_add_key, "user", "x", "y", 1, -2));
    say("bpf", syscall(SYS_bpf, 0, zeros, sizeof(zeros)));
}

static void try_files(void)
{
    char path[5000];
    say("open_write", open(victim, O_WRONLY));
    say("open_create", open(made, O_RDWR | O_CREAT, 0600));
    say("openat2", open_by_struct());
    say("unlink", unlink(victim));
    say("rename", rename(victim, made));
    say("link", link(victim, made));
    say("symlink", symlink(victim, made));
    say("mkdir", mkdir(made, 0700));
    say("chmod", chmod(victim, 0600));
    say("truncate", truncate(victim, 0));
    say("mount", mount("none", made, "tmpfs", 0, NULL));
    say("memfd", (long)syscall(SYS_memfd_create, "x", 0));
    say("write_target", pwrite(3, "x", 1, 0));
    snprintf(path, sizeof(path), "/proc/self/fd/3");
    say("open_target", open(path, O_RDWR | O_TRUNC));
    say("open_read", open(victim, O_RDONLY));
}

static enum sandbox_kind kind_of(const char *word)
{
    return strcmp(word, "adopt") == 0 ? SANDBOX_ADOPT : strcmp(word, "rechunk") == 0 ? SANDBOX_RECHUNK : SANDBOX_READ;
}

int sandbox_try(const char *what, const char *folder, pid_t host)
{
    bool spins = strncmp(what, "spin-", 5) == 0;
    enum sandbox_kind kind = kind_of(spins ? what + 5 : what);
    snprintf(victim, sizeof(victim), "%.4000s/victim", folder);
    snprintf(made, sizeof(made), "%.4000s/made", folder);
    snprintf(program, sizeof(program), "%.4000s/exec", folder);
    sandbox_limits(kind);
    sandbox_tie(kind, host);
    sandbox_shut(kind);
    if (spins) {
        printf("ready\n");
        fflush(stdout);
        for (volatile unsigned turns = 0;; turns++) /* until it is stopped */
            ;
    }
    try_network();
    try_processes();
    try_files();
    say("thread", start_thread());
    say("memory", mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0);
    fflush(stdout);
    return 0;
}
