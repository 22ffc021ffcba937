/* Processes of one host that run the same function: their ranks, where they listen, a barrier. */
#ifndef SIDES_H
#define SIDES_H

#include "checks.h"
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

enum { MOST_SIDES = 8 };

/* What all of them see. */
struct shared {
    pthread_barrier_t barrier;
    ptl_process_t ids[MOST_SIDES];
    volatile uint64_t words[16];
};

static int rank, size;
static struct shared *shared;

static inline void together(void)
{
    pthread_barrier_wait(&shared->barrier);
}

static inline double milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
}

/* Opens an interface, and tells the others where this process is. Logical ones get their map. */
static inline ptl_handle_ni_t open_side(unsigned kind, const ptl_ni_limits_t *desired, ptl_ni_limits_t *actual)
{
    ptl_handle_ni_t ni;
    CHECK(PtlInit());
    CHECK(PtlNIInit(PTL_IFACE_DEFAULT, kind, PTL_PID_ANY, desired, actual, &ni));
    CHECK(PtlGetPhysId(ni, &shared->ids[rank]));
    together();
    if (kind & PTL_NI_LOGICAL)
        CHECK(PtlSetMap(ni, size, shared->ids));
    return ni;
}

static inline void close_side(ptl_handle_ni_t ni)
{
    CHECK(PtlNIFini(ni));
    PtlFini();
}

static inline ptl_process_t to(int other)
{
    return (ptl_process_t){.rank = (ptl_rank_t)other};
}

/* An entry at an index of the table, with a counter of what is done to it. */
static inline ptl_handle_le_t entry(ptl_handle_ni_t ni, ptl_pt_index_t index, void *start, size_t length, ptl_handle_ct_t *count)
{
    ptl_pt_index_t got;
    ptl_handle_le_t handle;
    CHECK(PtlCTAlloc(ni, count));
    ptl_le_t le = {.start = start, .length = length, .uid = PTL_UID_ANY, .ct_handle = *count,
                   .options = PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_CT_COMM};
    CHECK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, index, &got));
    CHECK(PtlLEAppend(ni, index, &le, PTL_PRIORITY_LIST, NULL, &handle));
    return handle;
}

/* A descriptor that counts acknowledgements and replies. */
static inline ptl_handle_md_t descriptor(ptl_handle_ni_t ni, void *start, size_t length, unsigned options, ptl_handle_ct_t count)
{
    ptl_handle_md_t handle;
    ptl_md_t md = {.start = start, .length = length, .eq_handle = PTL_EQ_NONE, .ct_handle = count,
                   .options = options | PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY};
    CHECK(PtlMDBind(ni, &md, &handle));
    return handle;
}

/* Waits until so many have succeeded, and none has failed. */
static inline void counted(ptl_handle_ct_t count, size_t number)
{
    ptl_ct_event_t value;
    CHECK(PtlCTWait(count, number, &value));
    HOLDS(value.failure == 0);
}

/* Runs a function in so many processes, none of which has called Portals before. 0: all ended
 * well. */
static inline int run_sides(int count, void (*run)(void))
{
    pthread_barrierattr_t attributes;
    int failed = 0, status;
    size = count;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    HOLDS(shared != MAP_FAILED);
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attributes, (unsigned)count);
    pid_t children[MOST_SIDES];
    for (rank = 0; rank < count; rank++) {
        children[rank] = fork();
        HOLDS(children[rank] >= 0);
        if (children[rank] == 0) {
            run();
            exit(0);
        }
    }
    for (int ended = 0; ended < count; ended++) {
        HOLDS(wait(&status) > 0);
        if (status == 0)
            continue;
        /* the others wait for it in vain */
        for (int other = 0; !failed && other < count; other++)
            kill(children[other], SIGKILL);
        failed = 1;
    }
    return failed;
}

#endif
