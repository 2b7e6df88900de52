/* The child stays in our process group, so ctrl-C on the terminal reaches both; only signals sent to the watcher alone are passed on,
 * otherwise ctrl-C would arrive twice. The watcher adopts orphans, so that workers whose parent died stay in view.
 */
#include "jobs/watch/watch_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCHLD};
enum { HANDLED = sizeof(handled) / sizeof(*handled) };

static int open_signals(struct watch_child *c, struct fb_error *e)
{
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < HANDLED; i++)
        sigaddset(&set, handled[i]);
    sigprocmask(SIG_BLOCK, &set, &c->mask_before);
    c->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return c->signal_fd < 0 ? error_set_errno(e, "watch", errno, "watch signals") : 0;
}

static void run_command(struct watch_child *c, char **command, int report_fd)
{
    sigprocmask(SIG_SETMASK, &c->mask_before, NULL);
    signal(SIGPIPE, SIG_DFL);
    execvp(command[0], command);
    int error = errno;
    ssize_t ignored = write(report_fd, &error, sizeof(error));
    (void)ignored;
    _exit(127);
}

static int start(struct watch_child *c, char **command, struct fb_error *e)
{
    int report[2], error = 0;
    if (pipe2(report, O_CLOEXEC) < 0)
        return error_set_errno(e, "watch", errno, "make a pipe");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    c->pid = fork();
    if (c->pid == 0)
        run_command(c, command, report[1]);
    close(report[1]);
    ssize_t got = c->pid > 0 ? read(report[0], &error, sizeof(error)) : 0;
    close(report[0]);
    if (c->pid < 0)
        return error_set_errno(e, "watch", errno, "start a process");
    c->is_child = true;
    if (got == (ssize_t)sizeof(error)) {
        waitpid(c->pid, NULL, 0);
        return error_set_errno(e, "watch", error, "start %s", command[0]);
    }
    return 0;
}

/* Many files are kept open, two per thread; the child keeps the limit it was given. */
static void raise_file_limit(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < 16384) {
        l.rlim_cur = l.rlim_max == RLIM_INFINITY || l.rlim_max > 16384 ? 16384 : l.rlim_max;
        setrlimit(RLIMIT_NOFILE, &l);
    }
}

int watch_child_open(struct watch_child *c, char **command, pid_t pid, struct fb_error *e)
{
    *c = (struct watch_child){.pid = pid, .pid_fd = -1, .signal_fd = -1};
    FB_TRY(open_signals(c, e));
    if (command)
        FB_TRY(start(c, command, e));
    raise_file_limit();
    c->pid_fd = (int)syscall(SYS_pidfd_open, c->pid, 0);
    if (c->pid_fd < 0 && errno == ESRCH)
        return error_advise(e, error_set(e, FB_E_NOT_FOUND, "watch", "there is no process %d", (int)pid),
                            "check the number with ps; in a container, use the number inside its own namespace");
    return 0;
}

/* Reaps the child and adopted orphans. */
static void reap(struct watch_child *c)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != c->pid)
            continue;
        c->has_ended = true;
        c->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
}

static void take_signal(struct watch_child *c, const struct signalfd_siginfo *s, bool *wants_verdict, bool *wants_end, bool *is_resized)
{
    int number = (int)s->ssi_signo;
    bool from_terminal = s->ssi_code == SI_KERNEL;
    if (number == SIGUSR1)
        *wants_verdict = true;
    else if (number == SIGWINCH)
        *is_resized = true;
    else if (number != SIGCHLD && !c->is_child)
        *wants_end = true;
    else if (number != SIGCHLD && !from_terminal)
        kill(c->pid, number);
}

void watch_child_wait(struct watch_child *c, uint64_t deadline_ns, bool *wants_verdict, bool *wants_end, bool *is_resized)
{
    uint64_t now = clock_now_ns(), left = deadline_ns > now ? deadline_ns - now : 0;
    struct timespec t = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
    struct pollfd p[2] = {{c->signal_fd, POLLIN, 0}, {c->pid_fd, POLLIN, 0}};
    ppoll(p, 2, &t, NULL);
    struct signalfd_siginfo s;
    while (read(c->signal_fd, &s, sizeof(s)) == (ssize_t)sizeof(s))
        take_signal(c, &s, wants_verdict, wants_end, is_resized);
    if (c->is_child)
        reap(c);
    else
        c->has_ended = c->pid_fd >= 0 ? (p[1].revents & POLLIN) != 0 : kill(c->pid, 0) < 0 && errno == ESRCH;
}

void watch_child_close(struct watch_child *c)
{
    if (c->pid_fd >= 0)
        close(c->pid_fd);
    if (c->signal_fd >= 0)
        close(c->signal_fd);
    sigprocmask(SIG_SETMASK, &c->mask_before, NULL);
}
