/* Two processes use both drivers three times, over a library of verbs of which one call fails in
 * the second round, at the side that is asked for. Whatever fails: each call returns an error
 * number of the header within a time, each acknowledgement fires, each read and write ends, data
 * that came is right, nothing of verbs and no descriptor is lost, and the third round is as good
 * as the first.
 *
 * failing SIDE CALL [FUNCTION]: prints the call that has failed, or "none" where there were fewer
 * of this function, or of all. */
#include "arm.h"
#include <errno.h>
#include <ferriband_putget.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

enum { SHORT = 64, LONG = 100000, ROUNDS = 3, IN = 1, OUT = 2, NOTES = 3 };
/* Milliseconds: more than all times after which the library gives up. */
enum { PATIENCE = 30000, CONNECTS = 5000 };

/* What both see. */
struct shared {
    pthread_barrier_t barrier;
    volatile uint16_t ports[2];
    volatile int connects; /* 0: not yet known, 1: it has connected, -1: it has not */
};

static struct shared *shared;
static int side, failing_side;
static long victim;
static const char *function; /* NULL: any */
static unsigned char *in, *out;
static ferriband_putget_notification_t *notes;

static void together(void)
{
    pthread_barrier_wait(&shared->barrier);
}

static double milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
}

static void fails(const char *what, int why)
{
    fprintf(stderr, "side %d: %s: %d\n", side, what, why);
    exit(1);
}

/* Whether a call has returned 0; another number must be one of the header's. */
static int is_good(int error, const char *what)
{
    static const int known[] = {0,     ENOMEM,    EIO,          EAGAIN,   ECONNREFUSED, ETIMEDOUT,
                                ENODEV, ENOTCONN, ECONNRESET, EADDRNOTAVAIL, EPROTO};
    for (size_t at = 0; at < sizeof known / sizeof *known; at++)
        if (error == known[at])
            return !error;
    fails(what, error);
    return 0;
}

#define GOOD(call) is_good(call, #call)

static unsigned char value(int of, size_t at)
{
    return (unsigned char)(of * 101 + at * 7 + (at >> 8));
}

static void fill(unsigned char *data, int of)
{
    for (size_t at = 0; at < LONG; at++)
        data[at] = value(of, at);
}

static void is_right(const unsigned char *data, size_t length, int of, const char *what)
{
    for (size_t at = 0; at < length; at++)
        if (data[at] != value(of, at))
            fails(what, (int)at);
}

/* Whether an acknowledgement says that all is well. */
static int fires(const char *what)
{
    double end = milliseconds() + PATIENCE;
    while (!__atomic_load_n(&notes[0].state, __ATOMIC_ACQUIRE)) {
        if (milliseconds() > end)
            fails(what, -1);
        sched_yield();
    }
    if (notes[0].status > FERRIBAND_PUTGET_REFUSED)
        fails(what, (int)notes[0].status);
    return notes[0].status == FERRIBAND_PUTGET_OK;
}

/* Puts and gets of the second driver. How many have failed. */
static int operations(ferriband_putget_t *port, ferriband_putget_peer_t peer)
{
    int bad = 0;
    for (size_t length = SHORT; length <= LONG; length += LONG - SHORT) {
        fill(out, side);
        notes[0].state = 0;
        if (!GOOD(ferriband_putget_put(port, peer, OUT, IN, length, &notes[0])) || !fires("put"))
            bad++;
        notes[0].state = 0;
        if (GOOD(ferriband_putget_get(port, peer, OUT, IN + 10, length, &notes[0])) && fires("get"))
            is_right(out, length, !side, "get");
        else
            bad++;
        /* one that nobody waits for */
        bad += !GOOD(ferriband_putget_put(port, peer, OUT, IN, length, NULL));
    }
    return bad;
}

/* The peer, by connecting at side 1 and by accepting at side 0. */
static int connects(int (*once)(void *, int), void *with)
{
    double end = milliseconds() + CONNECTS + 5000;
    int error = ETIMEDOUT;
    if (side) {
        error = shared->ports[0] ? once(with, CONNECTS) : ECONNREFUSED;
        shared->connects = error ? -1 : 1;
        return error;
    }
    while (error == ETIMEDOUT && shared->connects >= 0 && milliseconds() < end)
        error = once(with, 100);
    return error;
}

struct second {
    ferriband_putget_t *port;
    ferriband_putget_peer_t peer;
};

static int meets_second(void *with, int time)
{
    struct second *of = with;
    return side ? ferriband_putget_connect(of->port, "127.0.0.1", shared->ports[0], time, &of->peer)
                : ferriband_putget_accept(of->port, time, &of->peer);
}

/* How many operations of the second driver have failed; -1: it was not there. */
static int second_driver(void)
{
    struct second of = {0};
    uint16_t port = 0;
    char text[64];
    int bad = -1, lives = GOOD(ferriband_putget_open("127.0.0.1", 0, &of.port));
    uint32_t tags[] = {IN, OUT, NOTES, IN + 10};
    void *memory[] = {in, out, notes, in + LONG};
    size_t lengths[] = {LONG, LONG, 4096, LONG};
    int registered = lives;
    for (int at = 0; lives && at < 4; at++)
        registered &= GOOD(ferriband_putget_register(of.port, memory[at], lengths[at], &tags[at]));
    if (registered && GOOD(ferriband_putget_address(of.port, text, sizeof text, &port)))
        notes[1].state = 0;
    if (registered)
        GOOD(ferriband_putget_notify(of.port, IN, FERRIBAND_PUTGET_INCOMING, &notes[1]));
    shared->connects = 0;
    shared->ports[side] = port;
    together();
    int meets = registered && GOOD(connects(meets_second, &of));
    if (!meets && side)
        shared->connects = -1;
    if (meets)
        bad = operations(of.port, of.peer);
    together();
    if (lives)
        ferriband_putget_close(of.port);
    return bad;
}

struct first {
    ferriband_channels_t *port;
    ferriband_channel_t channel;
};

static int meets_first(void *with, int time)
{
    struct first *of = with;
    return side ? ferriband_channels_connect(of->port, "127.0.0.1", shared->ports[0], time, &of->channel)
                : ferriband_channels_accept(of->port, time, &of->channel);
}

/* Side 1 writes, side 0 reads. What has not ended when the channel is over ends then. */
static int first_driver(void)
{
    struct first of = {0};
    uint16_t port = 0;
    char text[64];
    size_t got = 0;
    int bad = -1, lives = GOOD(ferriband_channels_open("127.0.0.1", 0, &of.port));
    int pinned = lives && GOOD(ferriband_channels_pin(of.port, in, 2 * LONG));
    if (pinned)
        GOOD(ferriband_channels_address(of.port, text, sizeof text, &port));
    shared->connects = 0;
    shared->ports[side] = port;
    together();
    int meets = pinned && GOOD(connects(meets_first, &of));
    if (!meets && side)
        shared->connects = -1;
    ferriband_transfer_t transfers[2];
    int begun[2] = {0}, over[2] = {0};
    for (int at = 0; meets && at < 2; at++) {
        unsigned char *data = in + at * SHORT;
        size_t length = at ? LONG : SHORT;
        begun[at] = GOOD(side ? ferriband_channels_start_write(of.port, of.channel, in + LONG, length, &transfers[at])
                              : ferriband_channels_start_read(of.port, of.channel, data, length, &transfers[at]));
    }
    if (meets)
        bad = 0;
    for (int at = 0; meets && at < 2; at++) {
        int error = begun[at] ? ferriband_channels_wait(of.port, transfers[at], 1500, &got) : EIO;
        over[at] = error != ETIMEDOUT;
        bad += !is_good(error, "wait");
        if (!error && !side)
            is_right(in + at * SHORT, got, 1, "read");
    }
    together();
    if (meets)
        GOOD(ferriband_channels_disconnect(of.port, of.channel));
    for (int at = 0; meets && at < 2; at++)
        if (begun[at] && !over[at] && ferriband_channels_wait(of.port, transfers[at], PATIENCE, &got) == ETIMEDOUT)
            fails("wait at the end", at);
    together();
    if (lives)
        ferriband_channels_close(of.port);
    return bad;
}

static void run(void)
{
    static const char *const untaken[] = {"ibv_dealloc_pd", "ibv_dereg_mr",   "ibv_destroy_comp_channel",
                                          "ibv_destroy_cq", "ibv_destroy_qp", "ibv_close_device",
                                          "rdma_destroy_id"};
    in = malloc(2 * LONG);
    out = malloc(LONG);
    notes = aligned_alloc(64, 4096);
    for (int round = 0; round < ROUNDS; round++) {
        fill(in, side);
        fill(in + LONG, side);
        if (round == 1)
            arm(side == failing_side ? victim : 0, function);
        long before = round ? alive() : 0;
        int bad = second_driver();
        together();
        fill(in + LONG, side);
        int worse = first_driver();
        const char *name = round == 1 && side == failing_side ? has_failed() : NULL;
        arm(0, NULL);
        together();
        /* what a failing call did not take back is lost */
        long lost = alive() - before;
        for (size_t at = 0; name && at < sizeof untaken / sizeof *untaken; at++)
            if (!strcmp(name, untaken[at]))
                lost = 0;
        if (round == 1 && side == failing_side) {
            printf("%s\n", name ? name : "none");
            fflush(stdout);
        }
        if (lost || (round != 1 && (bad || worse))) {
            fprintf(stderr, "side %d, round %d: %d and %d operations have failed, %ld objects are lost\n", side, round,
                    bad, worse, lost);
            exit(1);
        }
        together();
    }
}

int main(int count, char **words)
{
    pthread_barrierattr_t attributes;
    pid_t children[2];
    int failed = 0, status;
    if (count != 3 && count != 4)
        return 2;
    failing_side = atoi(words[1]);
    victim = atol(words[2]);
    function = words[3]; /* the last word is followed by NULL */
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 2;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attributes, 2);
    for (side = 0; side < 2; side++) {
        children[side] = fork();
        if (children[side] == 0) {
            run();
            exit(0);
        }
    }
    for (int ended = 0; ended < 2; ended++) {
        if (wait(&status) > 0 && status == 0)
            continue;
        /* the other waits for it in vain */
        for (int other = 0; !failed && other < 2; other++)
            kill(children[other], SIGKILL);
        failed = 1;
    }
    return failed;
}
