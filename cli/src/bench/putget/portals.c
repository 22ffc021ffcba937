/* What `ferriband-dev bench --putget` measures by Portals 4: round trips, streams, acknowledgements of
 * a target that computes, and a token that goes around. Compiled by our mpicc: processes tell
 * their addresses by MPI, and meet by it between measurements. Prints a name and a figure a
 * line. */
#include <mpi.h>
#include <portals4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(call) check(call, #call, __LINE__)

enum { INDEX = 4, SHORT = 4, LONG = 1 << 20, WINDOW = 16, MOST_RANKS = 64 };

static int rank, size;
static unsigned char *memory;

static void check(int status, const char *call, int line)
{
    if (status == PTL_OK)
        return;
    fprintf(stderr, "line %d: %s returned %d\n", line, call, status);
    exit(1);
}

static double nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

static void together(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static ptl_process_t other(int whom)
{
    return (ptl_process_t){.rank = (ptl_rank_t)whom};
}

/* What a process has for one measurement. */
struct side {
    ptl_handle_ni_t ni;
    ptl_handle_eq_t events;      /* of the entry */
    ptl_handle_ct_t came, acked; /* of the entry; of the descriptor */
    ptl_handle_md_t md;
    ptl_handle_me_t entry;
    int matches;
};

/* An interface with one entry and one descriptor, both over all of `memory`. A counter counts what
 * comes, or a queue tells it, or nothing does. */
enum said { BY_COUNTER, BY_EVENT, BY_NOTHING };

static struct side open_side(int matches, enum said said)
{
    struct side side = {.events = PTL_EQ_NONE, .came = PTL_CT_NONE, .matches = matches};
    ptl_process_t own, all[MOST_RANKS];
    ptl_pt_index_t index;
    unsigned kind = matches ? PTL_NI_MATCHING : PTL_NI_NO_MATCHING;
    CHECK(PtlNIInit(PTL_IFACE_DEFAULT, kind | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL, &side.ni));
    CHECK(PtlGetPhysId(side.ni, &own));
    MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, MPI_COMM_WORLD);
    CHECK(PtlSetMap(side.ni, size, all));
    unsigned options = PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_LINK_DISABLE | PTL_LE_EVENT_UNLINK_DISABLE;
    if (said == BY_EVENT)
        CHECK(PtlEQAlloc(side.ni, 1024, &side.events));
    else
        options |= PTL_LE_EVENT_COMM_DISABLE;
    if (said == BY_COUNTER) {
        CHECK(PtlCTAlloc(side.ni, &side.came));
        options |= PTL_LE_EVENT_CT_COMM;
    }
    CHECK(PtlPTAlloc(side.ni, 0, side.events, INDEX, &index));
    if (matches) {
        ptl_me_t me = {.start = memory, .length = 2 * LONG, .ct_handle = side.came, .uid = PTL_UID_ANY, .options = options, .match_bits = 7};
        me.match_id.rank = PTL_RANK_ANY;
        CHECK(PtlMEAppend(side.ni, index, &me, PTL_PRIORITY_LIST, NULL, &side.entry));
    } else {
        ptl_le_t le = {.start = memory, .length = 2 * LONG, .ct_handle = side.came, .uid = PTL_UID_ANY, .options = options};
        CHECK(PtlLEAppend(side.ni, index, &le, PTL_PRIORITY_LIST, NULL, &side.entry));
    }
    CHECK(PtlCTAlloc(side.ni, &side.acked));
    ptl_md_t md = {.start = memory, .length = 2 * LONG, .eq_handle = PTL_EQ_NONE, .ct_handle = side.acked,
                   .options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY};
    CHECK(PtlMDBind(side.ni, &md, &side.md));
    together();
    return side;
}

static void close_side(struct side *side)
{
    together();
    CHECK(PtlMDRelease(side->md));
    /* the reference has entries in use for a time after the last message */
    int unlinked = PTL_IN_USE;
    for (int tries = 0; unlinked == PTL_IN_USE && tries < 1000; tries++) {
        unlinked = side->matches ? PtlMEUnlink(side->entry) : PtlLEUnlink(side->entry);
        if (unlinked == PTL_IN_USE)
            usleep(1000);
    }
    CHECK(unlinked);
    CHECK(PtlPTFree(side->ni, INDEX));
    if (side->came != PTL_CT_NONE)
        CHECK(PtlCTFree(side->came));
    if (side->events != PTL_EQ_NONE)
        CHECK(PtlEQFree(side->events));
    CHECK(PtlCTFree(side->acked));
    together();
    CHECK(PtlNIFini(side->ni));
}

static void put(struct side *side, int whom, size_t length, ptl_ack_req_t ack)
{
    CHECK(PtlPut(side->md, 0, length, ack, other(whom), INDEX, 7, LONG, NULL, 0));
}

static void reached(ptl_handle_ct_t counter, size_t count)
{
    ptl_ct_event_t got;
    CHECK(PtlCTWait(counter, count, &got));
    if (got.failure) {
        fprintf(stderr, "%llu operations have failed\n", (unsigned long long)got.failure);
        exit(1);
    }
}

/* Waits for the next put, which is the one with this number. */
static void arrived(struct side *side, size_t number)
{
    ptl_event_t event;
    if (side->events == PTL_EQ_NONE) {
        reached(side->came, number);
        return;
    }
    CHECK(PtlEQWait(side->events, &event));
    if (event.type != PTL_EVENT_PUT || event.ni_fail_type != PTL_NI_OK) {
        fprintf(stderr, "event %d, failure %d\n", event.type, event.ni_fail_type);
        exit(1);
    }
}

/* A token that each rank passes on to the next; ns of a step. */
static double token(struct side *side, int rounds, size_t before)
{
    double began = nanoseconds();
    for (int round = 1; round <= rounds; round++) {
        if (rank > 0)
            arrived(side, before + round);
        put(side, (rank + 1) % size, SHORT, PTL_NO_ACK_REQ);
        if (rank == 0)
            arrived(side, before + round);
    }
    return (nanoseconds() - began) / rounds / size;
}

static void tokens(const char *name, int matches, enum said said, int rounds)
{
    struct side side = open_side(matches, said);
    token(&side, rounds / 10, 0);
    together();
    double ns = token(&side, rounds, rounds / 10);
    if (rank == 0)
        printf("%s %.1f\n", name, ns);
    close_side(&side);
}

/* A token by MPI. */
static void tokens_by_mpi(int rounds)
{
    int word = 0;
    double began = 0;
    for (int round = -rounds / 10; round < rounds; round++) {
        if (round == 0)
            began = nanoseconds();
        if (rank > 0)
            MPI_Recv(&word, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&word, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
        if (rank == 0)
            MPI_Recv(&word, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank == 0)
        printf("ring/mpi %.1f\n", (nanoseconds() - began) / rounds / size);
}

/* Long puts or gets of rank 0, several at a time; bytes a second. */
static void stream(const char *name, int gets, int count)
{
    struct side side = open_side(0, BY_NOTHING);
    double began = 0;
    int before = count / 10;
    for (int number = -before; rank == 0 && number < count; number++) {
        if (number == 0) {
            reached(side.acked, before);
            began = nanoseconds();
        }
        if (number >= WINDOW)
            reached(side.acked, before + number - WINDOW + 1);
        if (gets)
            CHECK(PtlGet(side.md, 0, LONG, other(1), INDEX, 7, LONG, NULL));
        else
            put(&side, 1, LONG, PTL_CT_ACK_REQ);
    }
    if (rank == 0) {
        reached(side.acked, before + count);
        printf("%s %.0f\n", name, (double)count * LONG * 1e9 / (nanoseconds() - began));
    }
    close_side(&side);
}

/* Short puts of rank 0, one after the other, which rank 1 counts; puts a second. */
static void rate(void)
{
    enum { COUNT = 200000, WARM = 10000 };
    struct side side = open_side(0, BY_COUNTER);
    for (int number = 0; rank == 0 && number < WARM; number++)
        put(&side, 1, SHORT, PTL_NO_ACK_REQ);
    if (rank == 1)
        reached(side.came, WARM);
    together();
    double began = nanoseconds();
    for (int number = 0; rank == 0 && number < COUNT; number++)
        put(&side, 1, SHORT, PTL_NO_ACK_REQ);
    if (rank == 1) {
        reached(side.came, WARM + COUNT);
        printf("rate/put %.0f\n", COUNT * 1e9 / (nanoseconds() - began));
    }
    close_side(&side);
}

/* Puts of 8 bytes, each acknowledged before the next one, to a target that computes for a
 * second. */
static void acks(const char *name, int matches)
{
    struct side side = open_side(matches, matches ? BY_COUNTER : BY_NOTHING);
    size_t done = 0;
    if (rank == 0) {
        /* the first ones connect, and ask how the entry is reached */
        for (; done < 100; done++) {
            put(&side, 1, 8, PTL_CT_ACK_REQ);
            reached(side.acked, done + 1);
        }
    }
    together();
    double began = nanoseconds();
    if (rank == 1) {
        volatile unsigned long work = 0;
        while (nanoseconds() - began < 1e9)
            for (int step = 0; step < 1000; step++)
                work += step;
    } else if (rank == 0) {
        size_t first = done;
        while (nanoseconds() - began < 0.8e9) {
            put(&side, 1, 8, PTL_CT_ACK_REQ);
            reached(side.acked, ++done);
        }
        printf("%s %.1f\n", name, (nanoseconds() - began) / (done - first));
    }
    close_side(&side);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 2 || size > MOST_RANKS || !(memory = calloc(2, LONG)))
        return 1;
    memset(memory, 1, 2 * LONG);
    CHECK(PtlInit());
    const struct {
        const char *name;
        int matches;
        enum said said;
    } latencies[] = {
        {"latency/le/counter", 0, BY_COUNTER},
        {"latency/me/counter", 1, BY_COUNTER},
        {"latency/le/event", 0, BY_EVENT},
        {"latency/me/event", 1, BY_EVENT},
        {"ring/portals", 0, BY_COUNTER},
    };
    int known = 1;
    for (unsigned at = 0; at < sizeof latencies / sizeof *latencies; at++)
        if (!strcmp(what, latencies[at].name)) {
            tokens(what, latencies[at].matches, latencies[at].said, size > 2 ? 2000 : 100000);
            what = "";
        }
    if (!strcmp(what, "ring/mpi"))
        tokens_by_mpi(2000);
    else if (!strcmp(what, "rate/put"))
        rate();
    else if (!strcmp(what, "stream/put") || !strcmp(what, "stream/get"))
        stream(what, !strcmp(what, "stream/get"), 5000);
    else if (!strcmp(what, "ack/direct") || !strcmp(what, "ack/matched"))
        acks(what, !strcmp(what, "ack/matched"));
    else
        known = !*what;
    if (!known)
        fprintf(stderr, "there is no %s\n", what);
    PtlFini();
    MPI_Finalize();
    return known ? 0 : 2;
}
