/* The Python stacks of watched processes: which of them run CPython, where its state lies, one look after the other.
 *
 * Only processes of this user are read, by process_vm_readv, which neither stops nor traces; where the kernel does not allow that, a
 * process is left alone after a few tries (it may have been on its way to become this user's program). So is one without an interpreter,
 * after as many looks at its list of mapped files.
 */
#ifndef FB_HOST_PYTHON_PY_PROCESS_H
#define FB_HOST_PYTHON_PY_PROCESS_H

#include <sys/types.h>

#include "host/python/py_activity.h"

struct py_processes;

/* NULL: no memory. `proc` stands for /proc, and stays. */
struct py_processes *py_processes_open(const char *proc);
/* What the main thread of a process does. `start_ticks` names the process together with its number. False: not known now. */
bool py_processes_look(struct py_processes *w, pid_t pid, uint64_t start_ticks, uint64_t now_ns, struct stack_meaning *out);
/* errno of a memory that could not be read for want of a right; 0: none. */
int py_processes_denied(const struct py_processes *w);
/* NULL is allowed. */
void py_processes_close(struct py_processes *w);

#endif
