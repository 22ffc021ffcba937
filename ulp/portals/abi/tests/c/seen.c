/* Two processes that are looked at: rank 1 puts to an entry of rank 0 until it reaches it itself,
 * then gets; a table entry of rank 0 is disabled. Both stay until standard input ends. */
#include "sides.h"

enum { HEAP = 4, CLOSED = 5, LENGTH = 1 << 17, PUTS = 8 };

static void run(void)
{
    ptl_handle_ni_t ni = open_side(PTL_NI_NO_MATCHING | PTL_NI_LOGICAL, NULL, NULL);
    char *memory = calloc(1, LENGTH), byte;
    ptl_handle_ct_t count;
    ptl_pt_index_t got;
    if (rank == 0) {
        entry(ni, HEAP, memory, LENGTH, &count);
        CHECK(PtlPTAlloc(ni, PTL_PT_ALLOC_DISABLED, PTL_EQ_NONE, CLOSED, &got));
    } else {
        CHECK(PtlCTAlloc(ni, &count));
    }
    together();
    if (rank == 1) {
        ptl_handle_md_t md = descriptor(ni, memory, LENGTH, 0, count);
        for (size_t done = 1; done <= PUTS; done++) {
            CHECK(PtlPut(md, 0, 8, PTL_CT_ACK_REQ, to(0), HEAP, 0, 0, NULL, 0));
            counted(count, done);
        }
        CHECK(PtlGet(md, 0, LENGTH, to(0), HEAP, 0, 0, NULL));
        counted(count, PUTS + 1);
        puts("ready");
        fflush(stdout);
    }
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    together();
    close_side(ni);
}

int main(void)
{
    return run_sides(2, run);
}
