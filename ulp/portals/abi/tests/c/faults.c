/* Faults of the reference implementation (sandialabs/portals4, by issue; Sandia OpenSHMEM 1), each
 * a case that must not be one here: those that need processes. The others are tests of
 * ulp/portals/proto. */
#include "sides.h"

enum { INDEX = 4 };

static const unsigned LOGICAL = PTL_NI_NO_MATCHING | PTL_NI_LOGICAL;

static ptl_ni_limits_t all_that_is_volatile(void)
{
    ptl_ni_limits_t desired;
    memset(&desired, 0, sizeof desired);
    desired.max_volatile_size = PTL_SIZE_MAX;
    return desired;
}

/* 2: max_volatile_size was promised larger than it was kept. A buffer is free when the call
 * returns, also before there is a connection. */
static void fault_2(void)
{
    enum { PUTS = 40 };
    ptl_ni_limits_t desired = all_that_is_volatile(), limits;
    ptl_handle_ni_t ni = open_side(LOGICAL, &desired, &limits);
    size_t length = limits.max_volatile_size;
    HOLDS(length > 0 && length <= limits.max_msg_size);
    unsigned char *bytes = calloc(PUTS, length);
    ptl_handle_ct_t count;
    if (rank == 0) {
        entry(ni, INDEX, bytes, PUTS * length, &count);
        together();
        counted(count, PUTS);
        for (size_t at = 0; at < PUTS * length; at++)
            HOLDS(bytes[at] == at / length + 1);
    } else {
        CHECK(PtlCTAlloc(ni, &count));
        ptl_handle_md_t md = descriptor(ni, bytes, PUTS * length, PTL_MD_VOLATILE, count);
        together();
        for (size_t put = 0; put < PUTS; put++) {
            memset(bytes, (int)put + 1, length);
            CHECK(PtlPut(md, 0, length, PTL_CT_ACK_REQ, to(0), INDEX, 0, put * length, NULL, 0));
            memset(bytes, 0xff, length);
        }
        HOLDS(PtlPut(md, 0, length + 1, PTL_CT_ACK_REQ, to(0), INDEX, 0, 0, NULL, 0) == PTL_ARG_INVALID);
        counted(count, PUTS);
    }
    close_side(ni);
    free(bytes);
}

/* Sandia OpenSHMEM 1: a broadcast hung with a large volatile size. */
static void shmem_1(void)
{
    enum { ROUNDS = 100 };
    ptl_ni_limits_t desired = all_that_is_volatile(), limits;
    ptl_handle_ni_t ni = open_side(LOGICAL, &desired, &limits);
    size_t length = limits.max_volatile_size, sent = 0;
    unsigned char *bytes = calloc(1, length);
    ptl_handle_ct_t came, acked;
    entry(ni, INDEX, bytes, length, &came);
    CHECK(PtlCTAlloc(ni, &acked));
    ptl_handle_md_t md = descriptor(ni, bytes, length, PTL_MD_VOLATILE, acked);
    together();
    for (int round = 1; round <= ROUNDS; round++) {
        if (rank == 0)
            memset(bytes, round, length);
        else
            counted(came, (size_t)round);
        HOLDS(bytes[0] == round && bytes[length - 1] == round);
        for (int child = 2 * rank + 1; child <= 2 * rank + 2 && child < size; child++, sent++)
            CHECK(PtlPut(md, 0, length, PTL_CT_ACK_REQ, to(child), INDEX, 0, 0, NULL, 0));
        counted(acked, sent);
        together();
    }
    close_side(ni);
    free(bytes);
}

/* 62, 3: atomic operations of several processes, the target's own among them, were lost, and so
 * were updates of counters. */
static void fault_62(void)
{
    enum { SUMS = 1000, FETCHES = 250 };
    uint64_t sum = 0, one[2] = {1, 0};
    ptl_ni_limits_t limits;
    ptl_handle_ni_t ni = open_side(LOGICAL, NULL, &limits);
    ptl_handle_ct_t came, done;
    ptl_ct_event_t value;
    entry(ni, INDEX, &sum, sizeof sum, &came);
    CHECK(PtlCTAlloc(ni, &done));
    ptl_handle_md_t md = descriptor(ni, one, sizeof one, 0, done);
    together();
    for (int round = 0; round < SUMS; round++) {
        CHECK(PtlAtomic(md, 0, 8, PTL_CT_ACK_REQ, to(0), INDEX, 0, 0, NULL, 0, PTL_SUM, PTL_UINT64_T));
        if (round % (SUMS / FETCHES) == 0)
            CHECK(PtlFetchAtomic(md, 8, md, 0, 8, to(0), INDEX, 0, 0, NULL, 0, PTL_SUM, PTL_UINT64_T));
    }
    counted(done, SUMS + FETCHES);
    together();
    CHECK(PtlCTGet(came, &value));
    HOLDS(value.success == (rank ? 0 : (size_t)size * (SUMS + FETCHES)) && value.failure == 0);
    HOLDS(sum == value.success);
    close_side(ni);
}

/* 49: four interfaces read one socket: what was one's came to another. */
static void fault_49(void)
{
    enum { PUTS = 100, KINDS = 4 };
    static const unsigned kinds[KINDS] = {
        PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_NI_NO_MATCHING | PTL_NI_LOGICAL,
        PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_NI_MATCHING | PTL_NI_LOGICAL};
    ptl_handle_ni_t ni[KINDS];
    ptl_handle_md_t md[KINDS];
    ptl_handle_ct_t came[KINDS], done[KINDS];
    unsigned char bytes[KINDS][MOST_SIDES][PUTS], out[KINDS];
    memset(bytes, 0, sizeof bytes);
    for (int kind = 0; kind < KINDS; kind++) {
        ptl_pt_index_t index;
        ptl_process_t own = shared->ids[rank];
        ni[kind] = open_side(kinds[kind], NULL, NULL);
        HOLDS(kind == 0 || memcmp(&own, &shared->ids[rank], sizeof own) == 0);
        out[kind] = (unsigned char)(kind + 1);
        CHECK(PtlCTAlloc(ni[kind], &done[kind]));
        md[kind] = descriptor(ni[kind], &out[kind], 1, 0, done[kind]);
        if (kinds[kind] & PTL_NI_NO_MATCHING) {
            entry(ni[kind], INDEX, bytes[kind], sizeof bytes[kind], &came[kind]);
            continue;
        }
        CHECK(PtlCTAlloc(ni[kind], &came[kind]));
        CHECK(PtlPTAlloc(ni[kind], 0, PTL_EQ_NONE, INDEX, &index));
        ptl_me_t me = {.start = bytes[kind], .length = sizeof bytes[kind], .uid = PTL_UID_ANY, .ct_handle = came[kind],
                       .options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM, .ignore_bits = ~0ull};
        ptl_handle_me_t handle;
        if (kinds[kind] & PTL_NI_PHYSICAL) {
            me.match_id.phys.nid = PTL_NID_ANY;
            me.match_id.phys.pid = PTL_PID_ANY;
        } else {
            me.match_id.rank = PTL_RANK_ANY;
        }
        CHECK(PtlMEAppend(ni[kind], INDEX, &me, PTL_PRIORITY_LIST, NULL, &handle));
    }
    together();
    for (int put = 0; put < PUTS; put++)
        for (int other = 0; other < size; other++)
            for (int kind = 0; kind < KINDS; kind++) {
                ptl_process_t target = kinds[kind] & PTL_NI_LOGICAL ? to(other) : shared->ids[other];
                CHECK(PtlPut(md[kind], 0, 1, PTL_CT_ACK_REQ, target, INDEX, 7, (size_t)(rank * PUTS + put), NULL, 0));
            }
    for (int kind = 0; kind < KINDS; kind++) {
        counted(done[kind], (size_t)PUTS * (size_t)size);
        counted(came[kind], (size_t)PUTS * (size_t)size);
        for (int other = 0; other < size; other++)
            for (int put = 0; put < PUTS; put++)
                HOLDS(bytes[kind][other][put] == kind + 1);
    }
    together();
    for (int kind = 0; kind < KINDS; kind++)
        close_side(ni[kind]);
}

/* 19: messages over 64 KiB, of several processes at a time. */
static void fault_19(void)
{
    static const size_t lengths[] = {65535, 65536, 65537, 200000, 1 << 20};
    enum { LONGEST = 1 << 20, LENGTHS = sizeof lengths / sizeof *lengths };
    unsigned char *bytes = calloc(3, LONGEST), *out = bytes + LONGEST, *back = out + LONGEST;
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    ptl_handle_ct_t came, done;
    ptl_handle_ni_t ni = open_side(LOGICAL, NULL, NULL);
    entry(ni, INDEX, bytes, LONGEST, &came);
    CHECK(PtlCTAlloc(ni, &done));
    ptl_handle_md_t md = descriptor(ni, out, 2 * LONGEST, 0, done);
    together();
    for (size_t round = 0; round < LENGTHS; round++) {
        size_t length = lengths[round];
        memset(out, rank * 10 + (int)round + 1, length);
        CHECK(PtlPut(md, 0, length, PTL_CT_ACK_REQ, to(next), INDEX, 0, 0, NULL, 0));
        counted(done, 2 * round + 1);
        CHECK(PtlGet(md, LONGEST, length, to(next), INDEX, 0, 0, NULL));
        counted(done, 2 * round + 2);
        HOLDS(memcmp(out, back, length) == 0);
        counted(came, 2 * round + 2);
        HOLDS(bytes[0] == before * 10 + round + 1 && bytes[length - 1] == bytes[0]);
        together();
    }
    close_side(ni);
    free(bytes);
}

/* 47: many peers at a time. */
static void fault_47(void)
{
    enum { PUTS = 100 };
    uint64_t in[MOST_SIDES] = {0}, out[PUTS];
    size_t others = (size_t)size - 1;
    ptl_handle_ct_t came, done;
    ptl_handle_ni_t ni = open_side(LOGICAL, NULL, NULL);
    entry(ni, INDEX, in, sizeof in, &came);
    CHECK(PtlCTAlloc(ni, &done));
    ptl_handle_md_t md = descriptor(ni, out, sizeof out, 0, done);
    together();
    for (size_t put = 0; put < PUTS; put++) {
        out[put] = put + 1;
        for (int other = 0; other < size; other++)
            if (other != rank)
                CHECK(PtlPut(md, put * 8, 8, PTL_CT_ACK_REQ, to(other), INDEX, 0, (size_t)rank * 8, NULL, 0));
    }
    counted(done, PUTS * others);
    counted(came, PUTS * others);
    for (int other = 0; other < size; other++)
        HOLDS(in[other] == (other == rank ? 0 : PUTS)); /* in order */
    together();
    close_side(ni);
}

/* 48: flow control hung. Many initiators run a small event queue full again and again; what was
 * refused is sent again when the target has enabled its table entry. */
enum { FLOOD = 200 };

static void flood(ptl_handle_ni_t ni)
{
    ptl_handle_eq_t eq;
    ptl_handle_md_t handle;
    ptl_event_t event;
    uint64_t value = 0;
    CHECK(PtlEQAlloc(ni, 16, &eq));
    ptl_md_t md = {.start = &value, .length = sizeof value, .eq_handle = eq, .ct_handle = PTL_CT_NONE,
                   .options = PTL_MD_EVENT_SEND_DISABLE};
    CHECK(PtlMDBind(ni, &md, &handle));
    for (uint64_t put = 0; put < FLOOD; put++) {
        uint64_t enabled = shared->words[0];
        CHECK(PtlPut(handle, 0, 8, PTL_ACK_REQ, to(0), INDEX, 0, 0, NULL, (uint64_t)rank * FLOOD + put));
        CHECK(PtlEQWait(eq, &event));
        HOLDS(event.type == PTL_EVENT_ACK);
        if (event.ni_fail_type == PTL_NI_OK)
            continue;
        HOLDS(event.ni_fail_type == PTL_NI_PT_DISABLED);
        put--;
        while (shared->words[0] == enabled)
            usleep(100);
    }
}

static void fault_48(void)
{
    ptl_handle_ni_t ni = open_side(LOGICAL, NULL, NULL);
    unsigned char seen[MOST_SIDES * FLOOD] = {0};
    ptl_handle_le_t handle;
    ptl_handle_eq_t eq;
    ptl_pt_index_t index;
    ptl_event_t event;
    uint64_t value;
    if (rank) {
        together();
        flood(ni);
    } else {
        ptl_le_t le = {.start = &value, .length = sizeof value, .uid = PTL_UID_ANY, .ct_handle = PTL_CT_NONE,
                       .options = PTL_LE_OP_PUT | PTL_LE_EVENT_LINK_DISABLE};
        CHECK(PtlEQAlloc(ni, 4, &eq));
        CHECK(PtlPTAlloc(ni, PTL_PT_FLOWCTRL, eq, INDEX, &index));
        CHECK(PtlLEAppend(ni, INDEX, &le, PTL_PRIORITY_LIST, NULL, &handle));
        together();
        int disabled = 0;
        for (int puts = 0; puts < (size - 1) * FLOOD;) {
            if (disabled < 5)
                usleep(2000);
            CHECK(PtlEQWait(eq, &event));
            if (event.type == PTL_EVENT_PT_DISABLED) {
                disabled++;
                /* told once, however many were refused */
                while (PtlEQGet(eq, &event) == PTL_OK)
                    HOLDS(event.type == PTL_EVENT_PUT && !seen[event.hdr_data]++ && ++puts);
                CHECK(PtlPTEnable(ni, INDEX));
                shared->words[0]++;
                continue;
            }
            HOLDS(event.type == PTL_EVENT_PUT && event.ni_fail_type == PTL_NI_OK && !seen[event.hdr_data]++);
            puts++;
        }
        HOLDS(disabled > 0);
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
    } cases[] = {{"2", 2, fault_2}, {"shmem-1", 6, shmem_1}, {"62", 4, fault_62}, {"49", 3, fault_49},
                 {"19", 4, fault_19}, {"47", 8, fault_47}, {"48", 4, fault_48}};
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++)
        if (count == 2 && strcmp(words[1], cases[at].name) == 0) {
            int failed = run_sides(cases[at].sides, cases[at].run);
            puts(failed ? "failed" : "ok");
            return failed;
        }
    fputs("no such case\n", stderr);
    return 2;
}
