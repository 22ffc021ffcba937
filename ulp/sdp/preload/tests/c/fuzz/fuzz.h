/* What the differential fuzzer's parts share: steps of a sequence, their results, and the memory by which a controller tells actors what to do.
 *
 * Two ends of a connection, 0 (accepted) and 1 (connected). Actors carry out calls, one at a time unless a step is begun only (BEGUN): 0 and 1 are
 * the ends' own, 2 is a forked child of actor 0, 3 and 4 are second threads of 0 and 1. A number of the program's is a slot of its side's table. */
#ifndef FUZZ_H
#define FUZZ_H
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(holds)                                                                         \
    do {                                                                                     \
        if (!(holds)) {                                                                      \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #holds, strerror(errno)); \
            exit(3);                                                                         \
        }                                                                                    \
    } while (0)

/* Microseconds after which bytes that were sent do not come any more. */
enum { BYTES_PATIENCE = 5000000 };
enum { ACTORS = 5, TABLES = 3, SLOTS = 7, SOCKETS = 5, STEPS = 72 };

/* The operations, with the names that a printed sequence has. */
#define OPERATIONS(X)                                                                                                                       \
    X(send) X(recv) X(fill) X(drain) X(shutdown) X(close) X(dup) X(scm) X(nonblock) X(setopt) X(getopt) X(ioctl) X(poll) X(select)          \
    X(epoll) X(ctl) X(wait) X(fork) X(reap) X(exec) X(join) X(open) X(carry) X(clear)
#define NAMED(name) OP_##name,
enum { OPERATIONS(NAMED) OPS };
#undef NAMED

/* How bytes are sent and received. */
enum { SEND, WRITE, WRITEV, SENDMSG, SENDTO, SENDFILE, SPLICE_OUT, SENDS };
enum { RECV, READ, READV, RECVMSG, RECVFROM, SPLICE_IN, RECVS };
enum { DONTWAIT = 1, NOSIGNAL = 2, MORE = 4, PEEK = 2, WAITALL = 4 };
enum { NODELAY, CORK, LOWAT, RCVTIMEO, SNDTIMEO, LINGER, RCVBUF, SNDBUF, KEEPALIVE, ERROR, TYPE, STATE, NAMES, OPTIONS };

struct step {
    uint8_t actor, op, begun, unused;
    int32_t args[4];
};

struct result {
    int32_t value, error, more[SLOTS];
};

/* A sequence with its results by TCP alone. */
struct trace {
    uint64_t seed;
    uint32_t mode, count;
    struct step steps[STEPS];
    struct result results[STEPS];
};
/* Modes: both ends in one process; the connection is taken over at any step and not before the first. */
enum { ONE_PROCESS = 1, UNPREPARED = 2 };

struct command {
    _Atomic uint32_t asked, done;
    struct step step;
    struct result expected, got;
};

struct shared {
    _Atomic uint32_t port, alive;
    /* Bytes that an end has sent, and that it has received. */
    _Atomic uint64_t sent[2], received[2];
    /* Calls wait for what is expected, for so many microseconds; 0: nothing is expected. */
    uint32_t patience;
    /* Microseconds before each call, for those who want to be sure that everything has arrived. */
    uint32_t pause;
    uint32_t carried, edges;
    uint32_t registered[TABLES][2][SLOTS];
    /* Not told so far that there is room; and whether there was ever none. */
    bool untold[TABLES][2][SLOTS], filled;
    pid_t processes[3];
    struct command commands[ACTORS];
};

extern struct shared *shared;

static inline int table_of(int actor)
{
    return actor == 3 ? 0 : actor == 4 ? 1 : actor;
}

static inline int end_of(int actor)
{
    return table_of(actor) == 1;
}

static inline uint64_t microseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* The stream that end e sends is this table over and over; its length is no multiple of anything. */
enum { PERIOD = 65521, LONGEST = 65536 };
extern uint8_t stream[2][PERIOD + LONGEST];

static inline const uint8_t *stream_at(int end, uint64_t at)
{
    return stream[end] + at % PERIOD;
}

static inline void make_streams(void)
{
    uint64_t state = 88172645463325252u;

    for (int end = 0; end < 2; end++) {
        for (int i = 0; i < PERIOD; i++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            stream[end][i] = (uint8_t)(state >> 32);
        }
        memcpy(stream[end] + PERIOD, stream[end], LONGEST);
    }
}

static inline long futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *time)
{
    return syscall(SYS_futex, word, operation, value, time, NULL, 0);
}
#endif
