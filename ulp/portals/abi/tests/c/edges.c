/* What a program may count on at the edges: what PtlCTWait returns, peers that come late to one
 * that leaves, memory that is not there, of entries and of descriptors, who serves a program that
 * asks. */
#include "sides.h"
#include <dirent.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

enum { INDEX = 4 };

static const unsigned LOGICAL = PTL_NI_NO_MATCHING | PTL_NI_LOGICAL;

/* PtlCTWait and PtlCTPoll return the counter as it was when it reached the test, although more is
 * counted before the program runs on. */
static void counts(void)
{
    enum { BURST = 64 };
    uint64_t value = 0;
    ptl_handle_ct_t came, other, done;
    ptl_ct_event_t seen;
    unsigned which;
    ptl_handle_ni_t ni = open_side(LOGICAL, NULL, NULL);
    entry(ni, INDEX, &value, sizeof value, &came);
    CHECK(PtlCTAlloc(ni, &other));
    CHECK(PtlCTAlloc(ni, &done));
    ptl_handle_md_t md = descriptor(ni, &value, sizeof value, 0, done);
    together();
    for (int round = 0; round < 4; round++) {
        size_t before = (size_t)round * BURST, test = before + 8;
        together();
        if (rank) {
            usleep(200000); /* the target waits */
            for (int put = 0; put < BURST; put++)
                CHECK(PtlPut(md, 0, 8, PTL_CT_ACK_REQ, to(0), INDEX, 0, 0, NULL, 0));
            counted(done, before + BURST);
        } else {
            HOLDS(value == 0);
            if (round % 2) {
                ptl_handle_ct_t both[2] = {other, came};
                ptl_size_t tests[2] = {1, test};
                CHECK(PtlCTPoll(both, tests, 2, PTL_TIME_FOREVER, &seen, &which));
                HOLDS(which == 1);
            } else {
                CHECK(PtlCTWait(came, test, &seen));
            }
            HOLDS(seen.success == test && seen.failure == 0);
            counted(came, before + BURST);
        }
        together();
    }
    HOLDS(rank || PtlCTPoll(&other, &(ptl_size_t){1}, 1, 10, &seen, &which) == PTL_CT_NONE_REACHED);
    close_side(ni);
}

/* A process that leaves still serves peers that have not connected before. A round in which the
 * peers themselves were late, for want of a processor, does not count. */
static void late(void)
{
    enum { ROUNDS = 5, MOST_ROUNDS = 60 };
    int good = 0;
    for (int round = 0; good < ROUNDS; round++) {
        uint64_t value = 0;
        ptl_handle_ct_t came, done;
        ptl_ct_event_t seen;
        HOLDS(round < MOST_ROUNDS);
        ptl_handle_ni_t ni = open_side(LOGICAL, NULL, NULL);
        entry(ni, INDEX, &value, sizeof value, &came);
        CHECK(PtlCTAlloc(ni, &done));
        ptl_handle_md_t md = descriptor(ni, &value, sizeof value, 0, done);
        shared->words[1] = 0;
        /* before any of them leaves */
        if (rank == 0)
            shared->words[2] = (uint64_t)milliseconds();
        together();
        if (rank) {
            CHECK(PtlPut(md, 0, 8, PTL_CT_ACK_REQ, to(0), INDEX, 0, 0, NULL, 0));
            CHECK(PtlCTWait(done, 1, &seen));
            /* PtlNIFini of the target waits for 50 ms */
            if (milliseconds() - shared->words[2] > 40)
                shared->words[1] = 1;
            else
                HOLDS(seen.success == 1 && seen.failure == 0);
        }
        close_side(ni);
        together();
        good += shared->words[1] == 0;
        together();
    }
}

/* More operations than can be under way at a time begin nonetheless, as calls and as triggered
 * ones, to the peer and within the process: each call waits for room. */
static void many(void)
{
    enum { CALLS = 200000, TRIGGERED = 10000 };
    uint64_t value = 0;
    ptl_handle_ct_t came, trigger;
    ptl_ct_event_t seen;
    ptl_handle_ni_t ni = open_side(LOGICAL, NULL, NULL);
    entry(ni, INDEX, &value, sizeof value, &came);
    CHECK(PtlCTAlloc(ni, &trigger));
    ptl_handle_md_t md = descriptor(ni, &value, sizeof value, 0, PTL_CT_NONE);
    together();
    if (rank == 0)
        for (int whom = 0; whom < 2; whom++) {
            for (int number = 0; number < TRIGGERED; number++)
                CHECK(PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, to(whom), INDEX, 0, 0, NULL, 0, trigger, whom + 1));
            for (int number = 0; number < CALLS; number++) {
                CHECK(PtlPut(md, 0, 8, PTL_NO_ACK_REQ, to(whom), INDEX, 0, 0, NULL, 0));
                if (number == CALLS / 2)
                    CHECK(PtlCTInc(trigger, (ptl_ct_event_t){1, 0}));
            }
        }
    CHECK(PtlCTWait(came, CALLS + TRIGGERED, &seen));
    HOLDS(seen.success == CALLS + TRIGGERED && seen.failure == 0);
    together();
    close_side(ni);
}

/* What an entry over all memory does not have is SEGV for who asks, nothing is changed, and the
 * next request is as good as ever. */
static void holes_of(ptl_handle_ni_t ni, ptl_process_t target, const uint64_t *pages, size_t page)
{
    enum { LONG = 1 << 17 };
    uint64_t hole = pages[0], read_only = pages[1], edge = pages[2] + page - 8, good = pages[2];
    unsigned char *bytes = calloc(1, LONG);
    ptl_handle_md_t handle;
    ptl_handle_eq_t eq;
    ptl_event_t event;
    CHECK(PtlEQAlloc(ni, 64, &eq));
    ptl_md_t md = {.start = bytes, .length = LONG, .eq_handle = eq, .ct_handle = PTL_CT_NONE,
                   .options = PTL_MD_EVENT_SEND_DISABLE};
    CHECK(PtlMDBind(ni, &md, &handle));
    const struct {
        uint64_t at;
        size_t length;
        int get, is_there;
    } cases[] = {{hole, 8, 0, 0}, {hole, 8, 1, 0}, {read_only, 8, 0, 0}, {read_only, 8, 1, 1}, {edge, 9, 0, 0}, {edge, 9, 1, 0},
                 {edge, 8, 0, 1}, {hole, LONG, 0, 0}, {hole, LONG, 1, 0}, {edge, LONG, 0, 0}, {8, 8, 0, 0},
                 {UINT64_MAX - 20, 8, 0, 0}, {good, 8, 0, 1}, {good, 8, 1, 1}, {good, page, 0, 1}, {good, page, 1, 1}};
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++) {
        memset(bytes, 7, LONG);
        if (cases[at].get)
            CHECK(PtlGet(handle, 0, cases[at].length, target, INDEX, 0, cases[at].at, NULL));
        else
            CHECK(PtlPut(handle, 0, cases[at].length, PTL_ACK_REQ, target, INDEX, 0, cases[at].at, NULL, 0));
        CHECK(PtlEQWait(eq, &event));
        HOLDS(event.type == (cases[at].get ? PTL_EVENT_REPLY : PTL_EVENT_ACK));
        if (event.ni_fail_type != (cases[at].is_there ? PTL_NI_OK : PTL_NI_SEGV))
            fprintf(stderr, "case %zu: failure %d\n", at, event.ni_fail_type);
        HOLDS(event.ni_fail_type == (cases[at].is_there ? PTL_NI_OK : PTL_NI_SEGV));
    }
    CHECK(PtlFetchAtomic(handle, 8, handle, 0, 8, target, INDEX, 0, hole, NULL, 0, PTL_SUM, PTL_UINT64_T));
    CHECK(PtlEQWait(eq, &event));
    HOLDS(event.ni_fail_type == PTL_NI_SEGV);
    CHECK(PtlMDRelease(handle));
    CHECK(PtlEQFree(eq));
    free(bytes);
}

static void holes(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    ptl_ni_limits_t desired, actual;
    ptl_handle_ct_t came;
    ptl_ct_event_t value;
    memset(&desired, 0, sizeof desired);
    desired.features = PTL_TARGET_BIND_INACCESSIBLE;
    ptl_handle_ni_t ni = open_side(LOGICAL, &desired, &actual);
    HOLDS(actual.features & PTL_TARGET_BIND_INACCESSIBLE);
    entry(ni, INDEX, NULL, PTL_SIZE_MAX, &came);
    if (rank == 0) {
        /* a page, a hole of more than a long message, a page that can be read, and a hole behind */
        size_t length = 100 * page;
        char *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        HOLDS(at != MAP_FAILED && munmap(at + page, length - 3 * page) == 0 && munmap(at + length - page, page) == 0);
        HOLDS(mprotect(at + length - 2 * page, page, PROT_READ) == 0);
        memset(at, 1, page);
        shared->words[0] = (uint64_t)(uintptr_t)(at + page);
        shared->words[1] = (uint64_t)(uintptr_t)(at + length - 2 * page);
        shared->words[2] = (uint64_t)(uintptr_t)at;
    }
    together();
    uint64_t pages[3] = {shared->words[0], shared->words[1], shared->words[2]};
    for (int who = 1; who >= 0; who--) { /* a peer, then the target itself */
        if (rank == who)
            holes_of(ni, to(0), pages, page);
        together();
    }
    if (rank == 0) {
        CHECK(PtlCTGet(came, &value));
        HOLDS(value.success == 12 && value.failure == 22);
    }
    together();
    close_side(ni);
}

/* Memory of a descriptor that is not there, and of an entry where that can be told: SEGV for who
 * asks, and the connection stays. */
struct wrong {
    void *start;
    size_t length;
    size_t offset, bytes;
    int index; /* beside INDEX */
    int puts, gets; /* whether a put, a get succeeds */
};

static void ends_with(ptl_handle_eq_t eq, int type, int good, size_t at)
{
    ptl_event_t event;
    CHECK(PtlEQWait(eq, &event));
    if (event.type != type || event.ni_fail_type != (good ? PTL_NI_OK : PTL_NI_SEGV))
        fprintf(stderr, "case %zu: event %d, failure %d\n", at, event.type, event.ni_fail_type);
    HOLDS(event.type == type && event.ni_fail_type == (good ? PTL_NI_OK : PTL_NI_SEGV));
}

static void wrong_of(ptl_handle_ni_t ni, ptl_process_t target)
{
    enum { LONG = 1 << 17 };
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *at = mmap(NULL, 2 * LONG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HOLDS(at != MAP_FAILED);
    /* good, a page that can only be read, a page of nothing, good */
    char *read_only = at + LONG - 2 * page, *hole = at + LONG - page;
    HOLDS(mprotect(read_only, page, PROT_READ) == 0 && munmap(hole, page) == 0);
    size_t there = LONG - 2 * page;
    const struct wrong cases[] = {
        {NULL, LONG, 0, 8, 0, 0, 0},      {NULL, LONG, 0, LONG, 0, 0, 0},   {hole, 8, 0, 8, 0, 0, 0},
        {hole, LONG, 0, LONG, 0, 0, 0},   {read_only, page, 0, 8, 0, 1, 0}, {read_only, page, 0, page, 0, 1, 0},
        {at, LONG, 0, 8, 0, 1, 1},        {at, LONG, there, 8, 0, 1, 0},    {at, LONG, LONG - 8, 8, 0, 0, 0},
        {at, LONG, 0, LONG, 0, 0, 0},     {at, LONG, 0, there, 0, 1, 1},    {at, there, 0, there, 0, 1, 1},
        {NULL, PTL_SIZE_MAX, 8, 8, 0, 0, 0},
        {NULL, PTL_SIZE_MAX, (size_t)hole - page / 2, LONG, 0, 0, 0},
        {NULL, PTL_SIZE_MAX, (size_t)at, 8, 0, 1, 1},
        {NULL, PTL_SIZE_MAX, PTL_SIZE_MAX - 64, 8, 0, 0, 0},
        {NULL, PTL_SIZE_MAX, (size_t)at, there, 0, 1, 1},
        {at, there, 0, 8, 1, 0, 0},       {at, there, 0, there, 1, 0, 0},   {at, there, 0, there, 2, 0, 1},
        {at, there, 0, there, 0, 1, 1},
    };
    for (int volatiles = 0; volatiles < 2; volatiles++)
        for (size_t number = 0; number < sizeof cases / sizeof *cases; number++) {
            const struct wrong *one = &cases[number];
            ptl_handle_md_t handle;
            ptl_handle_eq_t eq;
            CHECK(PtlEQAlloc(ni, 64, &eq));
            ptl_md_t md = {.start = one->start, .length = one->length, .eq_handle = eq, .ct_handle = PTL_CT_NONE,
                           .options = PTL_MD_EVENT_SEND_DISABLE | (volatiles ? PTL_MD_VOLATILE : 0)};
            CHECK(PtlMDBind(ni, &md, &handle));
            if (!volatiles || one->bytes <= 64) {
                CHECK(PtlPut(handle, one->offset, one->bytes, PTL_ACK_REQ, target, INDEX + one->index, 0, 0, NULL, 0));
                ends_with(eq, PTL_EVENT_ACK, one->puts, number);
            }
            CHECK(PtlGet(handle, one->offset, one->bytes, target, INDEX + one->index, 0, 0, NULL));
            ends_with(eq, PTL_EVENT_REPLY, one->gets, number);
            CHECK(PtlMDRelease(handle));
            CHECK(PtlEQFree(eq));
        }
}

static void wrong(void)
{
    enum { LONG = 1 << 17 };
    ptl_handle_ct_t came[3];
    ptl_handle_ni_t ni = open_side(LOGICAL, NULL, NULL);
    char *constant = mmap(NULL, LONG, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HOLDS(constant != MAP_FAILED);
    entry(ni, INDEX, calloc(1, LONG), LONG, &came[0]);
    entry(ni, INDEX + 1, NULL, LONG, &came[1]);
    entry(ni, INDEX + 2, constant, LONG, &came[2]);
    together();
    if (rank == 1)
        wrong_of(ni, to(0));
    together();
    close_side(ni);
}

static ptl_handle_eq_t hammered;
static volatile int stops;

static void *hammer(void *unused)
{
    ptl_event_t event;
    unsigned which;
    (void)unused;
    while (!stops)
        PtlEQPoll(&hammered, 1, 1, &event, &which);
    return NULL;
}

static void puts_well(ptl_handle_ni_t ni, ptl_process_t target)
{
    uint64_t value = 7;
    ptl_handle_ct_t done;
    CHECK(PtlCTAlloc(ni, &done));
    ptl_handle_md_t md = descriptor(ni, &value, sizeof value, 0, done);
    for (size_t number = 1; number <= 3; number++) {
        CHECK(PtlPut(md, 0, 8, PTL_CT_ACK_REQ, target, INDEX, 0, 0, NULL, 0));
        counted(done, number);
    }
}

/* A child of a process that uses Portals, forked while a thread is in the library: Portals is as
 * before PtlInit there, and may be used anew. The parent does not notice. */
static void forks(void)
{
    const unsigned physical = PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL;
    static uint64_t memory[8];
    ptl_handle_ct_t came;
    ptl_ct_event_t value;
    pthread_t thread;
    int status;
    ptl_handle_ni_t ni = open_side(physical, NULL, NULL);
    entry(ni, INDEX, memory, sizeof memory, &came);
    CHECK(PtlEQAlloc(ni, 8, &hammered));
    HOLDS(pthread_create(&thread, NULL, hammer, NULL) == 0);
    for (int round = 0; round < 8; round++) {
        pid_t child = fork();
        HOLDS(child >= 0);
        if (child == 0) {
            alarm(30);
            HOLDS(PtlCTGet(came, &value) == PTL_NO_INIT && PtlNIFini(ni) == PTL_NO_INIT);
            PtlFini();
            if (round % 2) {
                ptl_handle_ni_t own;
                CHECK(PtlInit());
                CHECK(PtlNIInit(PTL_IFACE_DEFAULT, physical, PTL_PID_ANY, NULL, NULL, &own));
                puts_well(own, shared->ids[0]);
                CHECK(PtlNIFini(own));
                PtlFini();
            }
            exit(0);
        }
        HOLDS(waitpid(child, &status, 0) == child && status == 0);
        puts_well(ni, shared->ids[0]);
    }
    stops = 1;
    HOLDS(pthread_join(thread, NULL) == 0);
    counted(came, 8 * 3 + 4 * 3);
    close_side(ni);
}

/* The thread of this process that serves it while it computes; 0: there is none. */
static pid_t serving_thread(void)
{
    char path[64], name[32];
    DIR *threads = opendir("/proc/self/task");
    struct dirent *thread;
    pid_t found = 0;
    HOLDS(threads != NULL);
    while (!found && (thread = readdir(threads))) {
        pid_t id = (pid_t)atoi(thread->d_name);
        snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)id);
        FILE *file = fopen(path, "r");
        if (!file)
            continue;
        if (fgets(name, sizeof name, file) && strcmp(name, "ferriband-put\n") == 0)
            found = id;
        fclose(file);
    }
    closedir(threads);
    return found;
}

/* Stops one thread of another process, where that is allowed. */
static int stops_thread(pid_t thread)
{
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0)
        return 0;
    HOLDS(ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) == 0);
    HOLDS(waitpid(thread, NULL, __WALL) == thread);
    return 1;
}

/* A program that asks for a counter again and again is served by its own calls: the
 * thread that serves it otherwise is stopped. */
static void asks(void)
{
    enum { PUTS = 100 };
    uint64_t value = 0;
    ptl_handle_ct_t came, done;
    ptl_ct_event_t seen = {0};
    ptl_handle_ni_t ni = open_side(LOGICAL, NULL, NULL);
    entry(ni, INDEX, &value, sizeof value, &came);
    CHECK(PtlCTAlloc(ni, &done));
    ptl_handle_md_t md = descriptor(ni, &value, sizeof value, 0, done);
    together();
    if (rank) {
        CHECK(PtlPut(md, 0, 8, PTL_CT_ACK_REQ, to(0), INDEX, 0, 0, NULL, 0));
        counted(done, 1);
    } else {
        counted(came, 1);
        shared->words[1] = (uint64_t)serving_thread();
        HOLDS(shared->words[1] != 0);
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
        usleep(100000); /* the thread sleeps until something comes */
    }
    together();
    if (rank && !(shared->words[2] = (uint64_t)stops_thread((pid_t)shared->words[1])))
        fputs("no thread may be stopped here\n", stderr);
    together();
    for (ptl_size_t put = 1; put < PUTS && shared->words[2]; put++)
        if (rank) {
            CHECK(PtlPut(md, 0, 8, PTL_CT_ACK_REQ, to(0), INDEX, 0, 0, NULL, 0));
            counted(done, put + 1);
        } else {
            while (seen.success <= put)
                CHECK(PtlCTGet(came, &seen));
        }
    /* the target serves until the initiator has its last acknowledgement */
    if (rank) {
        shared->words[3] = 1;
        if (shared->words[2])
            HOLDS(ptrace(PTRACE_DETACH, (pid_t)shared->words[1], NULL, NULL) == 0);
    } else {
        while (!shared->words[3])
            CHECK(PtlCTGet(came, &seen));
    }
    together();
    close_side(ni);
}

int main(int count, char **words)
{
    static const struct {
        const char *name;
        int sides;
        void (*run)(void);
    } cases[] = {{"counts", 2, counts}, {"late", 4, late}, {"holes", 2, holes}, {"many", 2, many},
                 {"wrong", 2, wrong}, {"forks", 1, forks}, {"asks", 2, asks}};
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++)
        if (count == 2 && strcmp(words[1], cases[at].name) == 0) {
            int failed = run_sides(cases[at].sides, cases[at].run);
            puts(failed ? "failed" : "ok");
            return failed;
        }
    fputs("no such case\n", stderr);
    return 2;
}
