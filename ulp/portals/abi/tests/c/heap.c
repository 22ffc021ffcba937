/* Memory that initiators reach themselves: a persistent entry without events, as OpenSHMEM's heap.
 * The target computes and makes no call while it is put to; a counter counts puts, gets and atomics
 * by whatever way they came; the entry goes while two processes put to it. */
#include <poll.h>
#include <portals4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(call) check(call, #call, __LINE__)
#define HOLDS(what) check(!(what), #what, __LINE__)

enum { WORDS = 1 << 17, LENGTH = WORDS * 8, ROUNDS = 300, FIRE = 40, INITIATORS = 2, PLAIN = 4, COUNTED = 5 };

static void check(int status, const char *what, int line)
{
    if (status != PTL_OK) {
        fprintf(stderr, "line %d, process %d: %s: %d\n", line, (int)getpid(), what, status);
        exit(1);
    }
}

/* One side of a pair of pipes. */
struct way {
    int out, in;
};

static void tell(struct way way, const void *what, size_t length)
{
    HOLDS(write(way.out, what, length) == (ssize_t)length);
}

static void hear(struct way way, void *what, size_t length)
{
    HOLDS(read(way.in, what, length) == (ssize_t)length);
}

static void signal_to(struct way way)
{
    tell(way, "", 1);
}

static void wait_for(struct way way)
{
    char byte;
    hear(way, &byte, 1);
}

static ptl_handle_ni_t open_ni(ptl_process_t *self)
{
    ptl_handle_ni_t ni;
    CHECK(PtlInit());
    CHECK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &ni));
    CHECK(PtlGetPhysId(ni, self));
    return ni;
}

static ptl_handle_le_t append(ptl_handle_ni_t ni, int index, void *start, ptl_handle_ct_t ct)
{
    ptl_le_t entry = {.start = start, .length = LENGTH, .uid = PTL_UID_ANY, .ct_handle = ct,
                      .options = PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_COMM_DISABLE |
                                 (ct == PTL_CT_NONE ? 0 : PTL_LE_EVENT_CT_COMM)};
    ptl_handle_le_t le;
    CHECK(PtlLEAppend(ni, index, &entry, PTL_PRIORITY_LIST, NULL, &le));
    return le;
}

/* As long as a peer that is just now answering keeps it, it is in use. */
static void unlink_entry(ptl_handle_le_t le)
{
    int status;
    while ((status = PtlLEUnlink(le)) == PTL_IN_USE)
        ;
    CHECK(status);
}

/* What an initiator has: a descriptor of memory to put, one of memory to get into, a counter of
 * ends. */
struct initiator {
    ptl_handle_ct_t ct;
    ptl_handle_md_t out, in;
    ptl_process_t target;
    uint64_t *from, *to;
    size_t done;
};

static void ended(struct initiator *me, size_t failures)
{
    ptl_ct_event_t count;
    CHECK(PtlCTWait(me->ct, ++me->done, &count));
    HOLDS(count.failure == failures);
}

static void put(struct initiator *me, int index, size_t at, size_t length)
{
    CHECK(PtlPut(me->out, 0, length, PTL_OC_ACK_REQ, me->target, index, 0, at, NULL, 0));
    ended(me, 0);
}

static void get(struct initiator *me, int index, size_t at, size_t length)
{
    CHECK(PtlGet(me->in, 0, length, me->target, index, 0, at, NULL));
    ended(me, 0);
}

static uint64_t add(struct initiator *me, int index, size_t at, uint64_t value)
{
    *me->from = value;
    CHECK(PtlFetchAtomic(me->in, 0, me->out, 0, 8, me->target, index, 0, at, NULL, 0, PTL_SUM, PTL_UINT64_T));
    ended(me, 0);
    return *me->to;
}

static uint64_t swap(struct initiator *me, int index, size_t at, uint64_t compare, uint64_t value)
{
    *me->from = value;
    CHECK(PtlSwap(me->in, 0, me->out, 0, 8, me->target, index, 0, at, NULL, 0, &compare, PTL_CSWAP, PTL_UINT64_T));
    ended(me, 0);
    return *me->to;
}

/* Each initiator uses a quarter of its own of the memory, but for the first words, which are
 * common. */
static void initiate(int number, struct way way)
{
    static const size_t lengths[] = {0, 1, 4, 8, 64, 65, 188, 189, 2048, 2049, 65536, LENGTH / 4};
    struct initiator me = {.from = calloc(1, LENGTH), .to = calloc(1, LENGTH)};
    ptl_process_t self;
    ptl_handle_ni_t ni = open_ni(&self);
    ptl_md_t md = {.start = me.from, .length = LENGTH, .eq_handle = PTL_EQ_NONE,
                   .options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY};
    size_t base = LENGTH / 4 * (1 + number);
    CHECK(PtlCTAlloc(ni, &me.ct));
    md.ct_handle = me.ct;
    CHECK(PtlMDBind(ni, &md, &me.out));
    md.start = me.to;
    CHECK(PtlMDBind(ni, &md, &me.in));
    hear(way, &me.target, sizeof me.target);
    for (int index = PLAIN; index <= COUNTED; index++)
        for (int round = 0; round < ROUNDS; round++) {
            size_t length = lengths[round % (sizeof lengths / sizeof *lengths)];
            memset(me.from, round * 5 + number + 1, length);
            put(&me, index, base, length);
            memset(me.to, 0, length + 8);
            get(&me, index, base, length);
            HOLDS(memcmp(me.from, me.to, length) == 0 && ((unsigned char *)me.to)[length] == 0);
            /* by the adapter, or by message, beside the other initiator */
            add(&me, index, 0, 1);
            for (uint64_t seen = add(&me, index, 8, 0), was; (was = swap(&me, index, 8, seen, seen + 1)) != seen;)
                seen = was;
            /* by message in any case */
            *me.from = 1;
            CHECK(PtlAtomic(me.out, 0, 8, PTL_OC_ACK_REQ, me.target, index, 0, 16, NULL, 0, PTL_SUM, PTL_INT64_T));
            ended(&me, 0);
        }
    /* a put that does not fit is cut, and one behind the end puts nothing */
    memset(me.from, 0x77, 16);
    put(&me, PLAIN, LENGTH - 8, 16);
    put(&me, PLAIN, LENGTH + 64, 16);
    signal_to(way);
    /* the target computes: it hears of these by memory alone */
    wait_for(way);
    for (uint64_t value = 1; value <= ROUNDS; value++) {
        *me.from = value;
        put(&me, PLAIN, 64 + 8 * number, 8);
    }
    wait_for(way);
    /* under fire: what comes too late comes to nothing, and is told so */
    struct pollfd over = {.fd = way.in, .events = POLLIN};
    ptl_ct_event_t count = {0, 0};
    while (poll(&over, 1, 0) == 0) {
        *me.from = 0xf1f1f1f1;
        CHECK(PtlPut(me.out, 0, 8, PTL_CT_ACK_REQ, me.target, PLAIN, 0, base, NULL, 0));
        CHECK(PtlCTWait(me.ct, ++me.done, &count));
    }
    HOLDS(count.failure > 0 && count.success > 0);
    wait_for(way);
    signal_to(way);
    wait_for(way);
    CHECK(PtlNIFini(ni));
    PtlFini();
}

static volatile uint64_t *watched(void *memory, size_t at)
{
    return (volatile uint64_t *)((char *)memory + at);
}

int main(void)
{
    struct way ways[INITIATORS];
    pid_t children[INITIATORS];
    for (int number = 0; number < INITIATORS; number++) {
        int there[2], back[2];
        HOLDS(pipe(there) == 0 && pipe(back) == 0);
        children[number] = fork();
        HOLDS(children[number] >= 0);
        if (children[number] == 0) {
            initiate(number, (struct way){.out = back[1], .in = there[0]});
            return 0;
        }
        ways[number] = (struct way){.out = there[1], .in = back[0]};
    }
    ptl_process_t self;
    ptl_handle_ni_t ni = open_ni(&self);
    ptl_handle_ct_t ct;
    ptl_ct_event_t count;
    ptl_pt_index_t index;
    uint64_t *plain = calloc(1, LENGTH), *counted = calloc(1, LENGTH);
    CHECK(PtlCTAlloc(ni, &ct));
    CHECK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PLAIN, &index));
    CHECK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, COUNTED, &index));
    ptl_handle_le_t le = append(ni, PLAIN, plain, PTL_CT_NONE), le_counted = append(ni, COUNTED, counted, ct);
    for (int number = 0; number < INITIATORS; number++)
        tell(ways[number], &self, sizeof self);
    for (int number = 0; number < INITIATORS; number++)
        wait_for(ways[number]);
    for (uint64_t *common = plain;; common = counted) {
        HOLDS(common[0] == INITIATORS * ROUNDS && common[1] == INITIATORS * ROUNDS);
        HOLDS(common[2] == INITIATORS * ROUNDS);
        if (common == counted)
            break;
    }
    HOLDS(plain[WORDS - 1] == 0x7777777777777777);
    /* puts, gets, sums of both kinds, reads of the swaps' value, and swaps, some of which are
     * repeated */
    CHECK(PtlCTGet(ct, &count));
    HOLDS(count.success >= INITIATORS * ROUNDS * 6 && count.failure == 0);
    for (int number = 0; number < INITIATORS; number++)
        signal_to(ways[number]);
    for (int number = 0; number < INITIATORS; number++)
        while (*watched(plain, 64 + 8 * number) != ROUNDS)
            ;
    for (int number = 0; number < INITIATORS; number++)
        signal_to(ways[number]);
    /* the entry comes and goes under fire: once it is gone, nobody writes to its memory */
    for (int round = 0; round < FIRE; round++) {
        usleep(2000);
        unlink_entry(le);
        memset(plain, 0, LENGTH);
        usleep(2000);
        for (size_t at = 0; at < WORDS; at++)
            HOLDS(plain[at] == 0);
        if (round % 2) {
            CHECK(PtlPTDisable(ni, PLAIN));
            CHECK(PtlPTEnable(ni, PLAIN));
        }
        le = append(ni, PLAIN, plain, PTL_CT_NONE);
        usleep(2000);
        CHECK(PtlPTDisable(ni, PLAIN));
        memset(plain, 0, LENGTH);
        usleep(2000);
        HOLDS(plain[LENGTH / 4 / 8] == 0 && plain[LENGTH / 2 / 8] == 0);
        CHECK(PtlPTEnable(ni, PLAIN));
    }
    unlink_entry(le);
    for (int number = 0; number < INITIATORS; number++) {
        signal_to(ways[number]);
        wait_for(ways[number]);
    }
    unlink_entry(le_counted);
    CHECK(PtlPTFree(ni, PLAIN));
    CHECK(PtlPTFree(ni, COUNTED));
    for (int number = 0; number < INITIATORS; number++) {
        int status;
        signal_to(ways[number]);
        HOLDS(waitpid(children[number], &status, 0) == children[number] && status == 0);
    }
    CHECK(PtlNIFini(ni));
    PtlFini();
    puts("ok");
    return 0;
}
