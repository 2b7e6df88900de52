/* Who takes which positions: the contract of ranks and batches.
 *
 * Global batch g of an epoch that (re)starts at position `start` holds positions [start + gB, start + (g+1)B), cut at n; rank r of w takes
 * [floor(rR/w), floor((r+1)R/w)) of its R positions. So the stream of global batches does not depend on w. A last global batch smaller than
 * w is filled up to w by repeats (positions >= n), or dropped with drop_last when it is smaller than B.
 */
#ifndef FB_ORDER_RANKS_RANKS_H
#define FB_ORDER_RANKS_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "order/state/skips.h"

struct rank_layout {
    uint64_t count;        /* n: samples of an epoch */
    uint64_t global_batch; /* B */
    uint32_t rank, world;
    bool drop_last;
};

struct batch_span {
    uint64_t first;   /* first position of this rank's part */
    uint64_t count;   /* of it; the same batch exists on every rank, sizes differ by at most one */
    uint64_t repeats; /* how many of the last positions are >= n */
    uint64_t end;     /* position after the whole global batch: what the state says, never above n */
};

/* FB_E_USAGE: no samples per batch, rank outside the world, or fewer samples in a global batch than ranks (some would get nothing). */
int ranks_check(const struct rank_layout *l, struct fb_error *e);
/* Batches from `start` on; the same on every rank. */
uint64_t ranks_batch_count(const struct rank_layout *l, uint64_t start);
/* Batch g counted from `start`. */
struct batch_span ranks_batch(const struct rank_layout *l, uint64_t start, uint64_t g);
/* The same with positions left out: `start` is a position; the span's `first` and the places after it are indices for skips_position, its
 * `end` is a position. */
uint64_t ranks_batches_left(const struct rank_layout *l, const struct skips *s, uint64_t start);
struct batch_span ranks_batch_left(const struct rank_layout *l, const struct skips *s, uint64_t start, uint64_t g);
/* The largest part any rank gets: the size of a slot. */
uint64_t ranks_largest(const struct rank_layout *l);

/* Rank and world size from environment variables: torchrun and Ray Train (RANK, WORLD_SIZE), SLURM (SLURM_PROCID, SLURM_NTASKS), Open MPI
 * (OMPI_COMM_WORLD_RANK, _SIZE), MPICH/Intel (PMI_RANK, PMI_SIZE). None: 0 of 1. FB_E_USAGE: LOCAL_RANK without a rank, half of a pair,
 * not numbers, rank >= world, or two sources that disagree: the variables are named. `get` is getenv or a test's.
 *
 * Three facts about launchers. torchrun sets TORCHELASTIC_RUN_ID; what srun or mpirun around it say is then about torchrun, not about us. A
 * worker of Ray has RAY_RAYLET_PID and inherits its environment from the raylet, not from the program that started the job: what srun or
 * mpirun say there is about the raylet; Ray Train's torch back-end sets RANK and WORLD_SIZE, other back-ends set nothing, so that a world
 * of several left behind by the raylet's launcher is refused. A SLURM batch script that asked for no number of tasks has SLURM_PROCID=0 and
 * no SLURM_NTASKS, an salloc shell the reverse: process 0, or one task, is then 0 of 1; and a SLURM world of one leaves the say to the
 * others. Empty variables count as unset. */
int ranks_from_environment(const char *(*get)(const char *name), int *rank, int *world, struct fb_error *e);

#endif
