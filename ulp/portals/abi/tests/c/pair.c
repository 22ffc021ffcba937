/* Two processes, the one forked by the other before either has called Portals: puts, gets and
 * atomics of several lengths and of memory in many pieces, by both kinds of list, their events
 * and counters, an unexpected put, and a triggered one. */
#include "checks.h"
#include <string.h>
#include <sys/wait.h>

enum { LONG = 1 << 20, MATCH = 77, PIECES = 300, PIECE = 100 };

struct side {
    ptl_handle_ni_t ni;
    ptl_process_t self, peer;
    int out, in; /* pipes to and from the peer */
};

static void tell(struct side *side, const void *what, size_t length)
{
    HOLDS(write(side->out, what, length) == (ssize_t)length);
}

static void hear(struct side *side, void *what, size_t length)
{
    HOLDS(read(side->in, what, length) == (ssize_t)length);
}

static void meet(struct side *side)
{
    char byte = 0;
    tell(side, &byte, 1);
    hear(side, &byte, 1);
}

static void open_ni(struct side *side, unsigned kind)
{
    ptl_ni_limits_t limits;
    CHECK(PtlInit());
    CHECK(PtlNIInit(PTL_IFACE_DEFAULT, kind | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, &limits, &side->ni));
    HOLDS(limits.max_pt_index >= 63 && limits.max_waw_ordered_size >= 64 && limits.max_war_ordered_size >= 8);
    CHECK(PtlGetPhysId(side->ni, &side->self));
    tell(side, &side->self, sizeof side->self);
    hear(side, &side->peer, sizeof side->peer);
}

static ptl_event_t next(ptl_handle_eq_t eq, int type)
{
    ptl_event_t event;
    CHECK(PtlEQWait(eq, &event));
    if (event.type != type || event.ni_fail_type != PTL_NI_OK) {
        fprintf(stderr, "event %d, failure %d; %d was expected\n", event.type, event.ni_fail_type, type);
        exit(1);
    }
    return event;
}

/* Memory in pieces, in backward order. */
static void cut(ptl_iovec_t *pieces, unsigned char *bytes)
{
    for (int piece = 0; piece < PIECES; piece++)
        pieces[piece] = (ptl_iovec_t){bytes + (PIECES - 1 - piece) * PIECE, PIECE};
}

/* Lists without matching: the initiator moves bytes in and out of the target's memory, which
 * computes nothing. */
static void plain(struct side *side, int is_target)
{
    unsigned char *bytes = calloc(1, LONG);
    unsigned char *parts = calloc(PIECES, PIECE);
    ptl_iovec_t pieces[PIECES];
    ptl_ct_event_t count;
    ptl_pt_index_t index;
    cut(pieces, parts);
    open_ni(side, PTL_NI_NO_MATCHING);
    if (is_target) {
        ptl_le_t entry = {.start = bytes, .length = LONG, .uid = PTL_UID_ANY,
                          .options = PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_CT_COMM};
        ptl_handle_le_t le, in_pieces;
        CHECK(PtlCTAlloc(side->ni, &entry.ct_handle));
        CHECK(PtlPTAlloc(side->ni, 0, PTL_EQ_NONE, 4, &index));
        CHECK(PtlLEAppend(side->ni, 4, &entry, PTL_PRIORITY_LIST, NULL, &le));
        CHECK(PtlPTAlloc(side->ni, 0, PTL_EQ_NONE, 5, &index));
        entry.start = pieces;
        entry.length = PIECES;
        entry.options |= PTL_IOVEC;
        CHECK(PtlLEAppend(side->ni, 5, &entry, PTL_PRIORITY_LIST, NULL, &in_pieces));
        meet(side);
        /* 12 puts, 12 gets, two atomics, two puts and two gets of pieces */
        CHECK(PtlCTWait(entry.ct_handle, 30, &count));
        HOLDS(count.success == 30 && count.failure == 0);
        meet(side);
        CHECK(PtlLEUnlink(le));
        CHECK(PtlLEUnlink(in_pieces));
        CHECK(PtlCTFree(entry.ct_handle));
        CHECK(PtlPTFree(side->ni, 4));
        CHECK(PtlPTFree(side->ni, 5));
    } else {
        unsigned char *back = calloc(1, LONG);
        ptl_md_t md = {.start = bytes, .length = LONG, .eq_handle = PTL_EQ_NONE,
                       .options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY};
        ptl_handle_md_t out, in;
        static const size_t lengths[] = {0, 1, 8, 64, 65, 188, 1980, 1981, 4096, 65537, LONG - 3, LONG};
        size_t done = 0;
        CHECK(PtlCTAlloc(side->ni, &md.ct_handle));
        CHECK(PtlMDBind(side->ni, &md, &out));
        md.start = back;
        CHECK(PtlMDBind(side->ni, &md, &in));
        meet(side);
        for (size_t round = 0; round < sizeof lengths / sizeof *lengths; round++) {
            size_t length = lengths[round], offset = LONG - length;
            for (size_t at = 0; at < length; at++)
                bytes[at] = (unsigned char)(at * 7 + round);
            CHECK(PtlPut(out, 0, length, PTL_CT_ACK_REQ, side->peer, 4, 0, offset, NULL, 0));
            CHECK(PtlCTWait(md.ct_handle, ++done, &count));
            CHECK(PtlGet(in, 0, length, side->peer, 4, 0, offset, NULL));
            CHECK(PtlCTWait(md.ct_handle, ++done, &count));
            HOLDS(count.failure == 0 && memcmp(bytes, back, length) == 0);
        }
        uint64_t *value = (uint64_t *)bytes, *before = (uint64_t *)back;
        *value = 5;
        CHECK(PtlPut(out, 0, 0, PTL_CT_ACK_REQ, side->peer, 9, 0, 0, NULL, 0));
        CHECK(PtlCTWait(md.ct_handle, done + 1, &count));
        HOLDS(count.failure == 1 && count.success == done); /* no such table entry */
        CHECK(PtlCTSet(md.ct_handle, (ptl_ct_event_t){.success = done}));
        CHECK(PtlFetchAtomic(in, 0, out, 0, 8, side->peer, 4, 0, 0, NULL, 0, PTL_SUM, PTL_UINT64_T));
        CHECK(PtlCTWait(md.ct_handle, ++done, &count));
        uint64_t was = *before;
        CHECK(PtlSwap(in, 0, out, 0, 8, side->peer, 4, 0, 0, NULL, 0, &(uint64_t){was + 5}, PTL_CSWAP, PTL_UINT64_T));
        CHECK(PtlCTWait(md.ct_handle, ++done, &count));
        HOLDS(*before == was + 5);
        ptl_handle_md_t many;
        md.start = pieces;
        md.length = PIECES;
        md.options |= PTL_IOVEC;
        CHECK(PtlMDBind(side->ni, &md, &many));
        for (int at = 0; at < PIECES * PIECE; at++)
            bytes[at] = (unsigned char)(at * 13);
        CHECK(PtlPut(out, 0, PIECES * PIECE, PTL_CT_ACK_REQ, side->peer, 5, 0, 0, NULL, 0));
        CHECK(PtlCTWait(md.ct_handle, ++done, &count));
        CHECK(PtlGet(many, 0, PIECES * PIECE, side->peer, 5, 0, 0, NULL));
        CHECK(PtlCTWait(md.ct_handle, ++done, &count));
        for (int at = 0; at < PIECES * PIECE; at++) /* the last piece comes first in memory */
            HOLDS(parts[(PIECES - 1 - at / PIECE) * PIECE + at % PIECE] == bytes[at]);
        CHECK(PtlPut(many, 50, PIECES * PIECE - 50, PTL_CT_ACK_REQ, side->peer, 5, 0, 50, NULL, 0));
        CHECK(PtlCTWait(md.ct_handle, ++done, &count));
        CHECK(PtlGet(in, 0, PIECES * PIECE, side->peer, 5, 0, 0, NULL));
        CHECK(PtlCTWait(md.ct_handle, ++done, &count));
        HOLDS(count.failure == 0 && memcmp(bytes, back, PIECES * PIECE) == 0);
        meet(side);
        CHECK(PtlMDRelease(many));
        CHECK(PtlMDRelease(out));
        CHECK(PtlMDRelease(in));
        CHECK(PtlCTFree(md.ct_handle));
        HOLDS(PtlCTGet(md.ct_handle, &count) == PTL_ARG_INVALID);
        free(back);
    }
    CHECK(PtlNIFini(side->ni));
    PtlFini();
    free(parts);
    free(bytes);
}

/* Lists with matching: a put that is expected, one that is not, and one that a counter triggers. */
static void matching(struct side *side, int is_target)
{
    char bytes[3][100] = {"", "", ""}, early[4096];
    ptl_handle_eq_t eq;
    ptl_event_t event;
    open_ni(side, PTL_NI_MATCHING);
    CHECK(PtlEQAlloc(side->ni, 64, &eq));
    if (is_target) {
        ptl_pt_index_t index;
        ptl_handle_me_t me, overflow;
        ptl_me_t entry = {.start = early, .length = sizeof early, .uid = PTL_UID_ANY, .ct_handle = PTL_CT_NONE,
                          .options = PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL, .ignore_bits = ~0ull,
                          .match_id.phys = {PTL_NID_ANY, PTL_PID_ANY}};
        CHECK(PtlPTAlloc(side->ni, 0, eq, PTL_PT_ANY, &index));
        CHECK(PtlMEAppend(side->ni, index, &entry, PTL_OVERFLOW_LIST, NULL, &overflow));
        next(eq, PTL_EVENT_LINK);
        entry.options = PTL_ME_OP_PUT | PTL_ME_USE_ONCE;
        entry.start = bytes[0];
        entry.length = sizeof bytes[0];
        entry.match_bits = MATCH;
        entry.ignore_bits = 0;
        CHECK(PtlMEAppend(side->ni, index, &entry, PTL_PRIORITY_LIST, (void *)5, &me));
        next(eq, PTL_EVENT_LINK);
        tell(side, &index, sizeof index);
        event = next(eq, PTL_EVENT_PUT);
        HOLDS(strcmp(bytes[0], "expected") == 0 && event.user_ptr == (void *)5 && event.hdr_data == 1);
        HOLDS(event.mlength == 9 && event.initiator.phys.pid == side->peer.phys.pid);
        next(eq, PTL_EVENT_AUTO_UNLINK);
        event = next(eq, PTL_EVENT_PUT);
        HOLDS(event.hdr_data == 2 && strcmp(event.start, "unexpected") == 0);
        entry.start = bytes[1];
        entry.match_bits = MATCH + 1;
        CHECK(PtlMEAppend(side->ni, index, &entry, PTL_PRIORITY_LIST, (void *)6, &me));
        event = next(eq, PTL_EVENT_PUT_OVERFLOW);
        HOLDS(event.hdr_data == 2 && event.user_ptr == (void *)6 && strcmp(event.start, "unexpected") == 0);
        next(eq, PTL_EVENT_AUTO_UNLINK);
        meet(side);
        event = next(eq, PTL_EVENT_PUT);
        HOLDS(event.hdr_data == 3);
        meet(side);
    } else {
        ptl_pt_index_t index;
        ptl_handle_md_t handle;
        ptl_handle_ct_t trigger;
        ptl_md_t md = {.start = bytes, .length = sizeof bytes, .eq_handle = eq, .ct_handle = PTL_CT_NONE};
        CHECK(PtlMDBind(side->ni, &md, &handle));
        CHECK(PtlCTAlloc(side->ni, &trigger));
        strcpy(bytes[0], "expected");
        strcpy(bytes[1], "unexpected");
        hear(side, &index, sizeof index);
        CHECK(PtlTriggeredPut(handle, 200, 4, PTL_NO_ACK_REQ, side->peer, index, 0, 0, NULL, 3, trigger, 2));
        CHECK(PtlPut(handle, 0, 9, PTL_ACK_REQ, side->peer, index, MATCH, 0, (void *)8, 1));
        next(eq, PTL_EVENT_SEND);
        event = next(eq, PTL_EVENT_ACK);
        HOLDS(event.mlength == 9 && event.user_ptr == (void *)8);
        CHECK(PtlPut(handle, 100, 11, PTL_ACK_REQ, side->peer, index, MATCH + 1, 0, NULL, 2));
        next(eq, PTL_EVENT_SEND);
        event = next(eq, PTL_EVENT_ACK);
        HOLDS(event.ptl_list == PTL_OVERFLOW_LIST);
        meet(side);
        HOLDS(PtlEQGet(eq, &event) == PTL_EQ_EMPTY);
        CHECK(PtlCTInc(trigger, (ptl_ct_event_t){.success = 1}));
        HOLDS(PtlEQGet(eq, &event) == PTL_EQ_EMPTY);
        CHECK(PtlCTInc(trigger, (ptl_ct_event_t){.success = 1}));
        next(eq, PTL_EVENT_SEND);
        meet(side);
    }
    CHECK(PtlNIFini(side->ni));
    PtlFini();
}

int main(void)
{
    int there[2], back[2], status;
    HOLDS(pipe(there) == 0 && pipe(back) == 0);
    pid_t child = fork();
    HOLDS(child >= 0);
    struct side side = {.out = child ? there[1] : back[1], .in = child ? back[0] : there[0]};
    plain(&side, child == 0);
    matching(&side, child == 0);
    if (child == 0)
        return 0;
    HOLDS(waitpid(child, &status, 0) == child && status == 0);
    puts("ok");
    return 0;
}
