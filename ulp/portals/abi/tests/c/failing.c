/* Two processes put, get and change each other's memory three times, over a library of verbs of
 * which one call fails in the second round, at the side that is asked for. Whatever fails: what a
 * call returns is a code of the header, each operation that was begun ends with an event within a
 * time, data that came is right, nothing of verbs and no descriptor is lost, and the third round
 * is as good as the first.
 *
 * failing SIDE CALL [FUNCTION]: prints the call that has failed, or "none" where there were fewer
 * of this function, or of all.
 * failing stopped: a peer that is stopped is waited for; one whose host is gone is UNDELIVERABLE.
 * failing paths LENGTH: prints how many RDMA READs and WRITEs a put and a get of so many bytes
 * took. */
#include "arm.h"
#include "sides.h"
#include <arpa/inet.h>
#include <dirent.h>

enum { INDEX = 4, SHORT = 64, LONG = 100000, ROUNDS = 3 };
enum { PATIENCE = 40000 }; /* milliseconds: more than all times after which the library gives up */
enum { WRITE = 0, READ = 4 };

static long victim;
static const char *function; /* NULL: any */
static int failing_side;
static unsigned char *mine, *other;

static unsigned char value(int side, size_t at)
{
    return (unsigned char)(side * 101 + at * 7 + (at >> 8));
}

/* The codes of the header that a failing adapter may cause. */
static int is_documented(int status)
{
    return status == PTL_OK || status == PTL_FAIL || status == PTL_NO_SPACE || status == PTL_IN_USE;
}

static int returns(int status, const char *what)
{
    if (!is_documented(status)) {
        fprintf(stderr, "side %d: %s: %d\n", rank, what, status);
        exit(1);
    }
    return status == PTL_OK;
}

#define RETURNS(call) returns(call, #call)

/* What an operation ended with: the event that says so, and no other. */
static int ends(ptl_handle_eq_t eq, ptl_event_kind_t kind, const char *what)
{
    ptl_event_t event;
    unsigned which;
    int status = PtlEQPoll(&eq, 1, PATIENCE, &event, &which);
    if (status != PTL_OK || event.type != kind) {
        fprintf(stderr, "side %d: %s: %s, event %d\n", rank, what, status == PTL_EQ_EMPTY ? "nothing came" : "failed",
                status == PTL_OK ? (int)event.type : -1);
        exit(1);
    }
    if (event.ni_fail_type != PTL_NI_OK && event.ni_fail_type != PTL_NI_UNDELIVERABLE &&
        event.ni_fail_type != PTL_NI_SEGV && event.ni_fail_type != PTL_NI_DROPPED) {
        fprintf(stderr, "side %d: %s: ni_fail %d\n", rank, what, (int)event.ni_fail_type);
        exit(1);
    }
    return event.ni_fail_type == PTL_NI_OK;
}

static void is_right(const unsigned char *data, size_t length, int side, const char *what)
{
    for (size_t at = 0; at < length; at++)
        if (data[at] != value(side, at)) {
            fprintf(stderr, "side %d: %s: byte %zu\n", rank, what, at);
            exit(1);
        }
}

/* All operations to a process, one after the other. How many have failed. */
static int operations(ptl_handle_ni_t ni, ptl_process_t target)
{
    ptl_handle_eq_t eq;
    ptl_handle_md_t handle;
    int bad = 0;
    CHECK(PtlEQAlloc(ni, 64, &eq));
    ptl_md_t md = {.start = other, .length = LONG, .eq_handle = eq, .ct_handle = PTL_CT_NONE,
                   .options = PTL_MD_EVENT_SEND_DISABLE};
    CHECK(PtlMDBind(ni, &md, &handle));
    for (int turn = 0; turn < 2; turn++) {
        size_t length = turn ? LONG : SHORT;
        for (size_t at = 0; at < length; at++)
            other[at] = value(rank, at);
        if (RETURNS(PtlPut(handle, 0, length, PTL_ACK_REQ, target, INDEX, 0, LONG, NULL, 0)))
            bad += !ends(eq, PTL_EVENT_ACK, "put");
        memset(other, 0, length);
        if (RETURNS(PtlGet(handle, 0, length, target, INDEX, 0, 0, NULL))) {
            if (ends(eq, PTL_EVENT_REPLY, "get"))
                is_right(other, length, !rank, "get");
            else
                bad++;
        }
        /* that of the table entry beside it may go by the direct path from the second time on */
        if (RETURNS(PtlPut(handle, 0, length, PTL_ACK_REQ, target, INDEX + 1, 0, 0, NULL, 0)))
            bad += !ends(eq, PTL_EVENT_ACK, "put to the heap");
        if (RETURNS(PtlGet(handle, 0, length, target, INDEX + 1, 0, 0, NULL)))
            bad += !ends(eq, PTL_EVENT_REPLY, "get from the heap");
        if (RETURNS(PtlAtomic(handle, 0, 8, PTL_ACK_REQ, target, INDEX, 0, LONG, NULL, 0, PTL_SUM, PTL_UINT64_T)))
            bad += !ends(eq, PTL_EVENT_ACK, "atomic");
        if (RETURNS(PtlFetchAtomic(handle, 0, handle, 8, 8, target, INDEX, 0, LONG, NULL, 0, PTL_SUM, PTL_UINT64_T)))
            bad += !ends(eq, PTL_EVENT_REPLY, "fetching atomic");
    }
    CHECK(PtlMDRelease(handle));
    CHECK(PtlEQFree(eq));
    return bad;
}

/* An entry whose events are told, and one that peers may reach by themselves. */
static void serve(ptl_handle_ni_t ni, unsigned char *heap, ptl_handle_eq_t *told)
{
    ptl_pt_index_t got;
    ptl_handle_le_t entry;
    ptl_le_t le = {.start = mine, .length = 2 * LONG, .uid = PTL_UID_ANY, .ct_handle = PTL_CT_NONE,
                   .options = PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_LINK_DISABLE};
    CHECK(PtlEQAlloc(ni, 1024, told));
    CHECK(PtlPTAlloc(ni, 0, *told, INDEX, &got));
    CHECK(PtlLEAppend(ni, INDEX, &le, PTL_PRIORITY_LIST, NULL, &entry));
    le.start = heap;
    le.length = LONG;
    CHECK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, INDEX + 1, &got));
    CHECK(PtlLEAppend(ni, INDEX + 1, &le, PTL_PRIORITY_LIST, NULL, &entry));
}

/* One life of both sides. How many operations of this one have failed; -1: it has no interface. */
static int life(void)
{
    ptl_handle_ni_t ni;
    ptl_handle_eq_t told;
    int bad = -1;
    unsigned char *heap = calloc(1, LONG);
    CHECK(PtlInit());
    int lives = RETURNS(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &ni));
    /* a process that nobody has ever heard of stands for one that could not begin */
    shared->ids[rank] = (ptl_process_t){.phys = {.nid = INADDR_LOOPBACK, .pid = 9}};
    if (lives) {
        CHECK(PtlGetPhysId(ni, &shared->ids[rank]));
        serve(ni, heap, &told);
    }
    together();
    if (lives)
        bad = operations(ni, shared->ids[!rank]);
    together();
    if (lives)
        RETURNS(PtlNIFini(ni));
    PtlFini();
    free(heap);
    return bad;
}

static void run(void)
{
    static const char *const untaken[] = {"ibv_dealloc_pd", "ibv_dereg_mr", "ibv_destroy_comp_channel",
                                          "ibv_destroy_cq", "ibv_destroy_qp", "ibv_close_device",
                                          "rdma_destroy_id"};
    mine = malloc(2 * LONG);
    other = malloc(LONG);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t at = 0; at < 2 * LONG; at++)
            mine[at] = value(rank, at);
        if (round == 1)
            arm(rank == failing_side ? victim : 0, function);
        long before = round ? alive() : 0;
        int bad = life();
        const char *name = round == 1 && rank == failing_side ? has_failed() : NULL;
        arm(0, NULL);
        together();
        /* what a failing call did not take back is lost */
        long lost = alive() - before;
        for (size_t at = 0; name && at < sizeof untaken / sizeof *untaken; at++)
            if (!strcmp(name, untaken[at]))
                lost = 0;
        if (round == 1 && rank == failing_side) {
            printf("%s\n", name ? name : "none");
            fflush(stdout);
        }
        if (lost || (round != 1 && bad)) {
            fprintf(stderr, "side %d, round %d: %d operations have failed, %ld objects are lost\n", rank, round, bad,
                    lost);
            exit(1);
        }
        together();
    }
}

static size_t length;

static void paths(void)
{
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq, told;
    ptl_handle_md_t handle;
    mine = calloc(2, LONG);
    other = calloc(1, LONG);
    CHECK(PtlInit());
    CHECK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &ni));
    CHECK(PtlGetPhysId(ni, &shared->ids[rank]));
    serve(ni, calloc(1, LONG), &told);
    together();
    if (rank) {
        ptl_md_t md = {.start = other, .length = LONG, .ct_handle = PTL_CT_NONE, .options = PTL_MD_EVENT_SEND_DISABLE};
        CHECK(PtlEQAlloc(ni, 64, &eq));
        md.eq_handle = eq;
        CHECK(PtlMDBind(ni, &md, &handle));
        CHECK(PtlPut(handle, 0, length, PTL_ACK_REQ, shared->ids[0], INDEX, 0, 0, NULL, 0));
        HOLDS(ends(eq, PTL_EVENT_ACK, "put"));
        CHECK(PtlGet(handle, 0, length, shared->ids[0], INDEX, 0, 0, NULL));
        HOLDS(ends(eq, PTL_EVENT_REPLY, "get"));
    }
    together();
    if (!rank) {
        printf("%ld %ld\n", posted(READ), posted(WRITE));
        fflush(stdout);
    }
    CHECK(PtlNIFini(ni));
    PtlFini();
}

/* Stops a process, and waits until each of its threads has heard of it. */
static void stops(pid_t process)
{
    char name[64], line[256];
    HOLDS(kill(process, SIGSTOP) == 0);
    snprintf(name, sizeof name, "/proc/%d/task", (int)process);
    DIR *threads = opendir(name);
    HOLDS(threads != NULL);
    for (struct dirent *one = readdir(threads); one; one = readdir(threads))
        for (int is_stopped = one->d_name[0] == '.'; !is_stopped;) {
            snprintf(line, sizeof line, "%s/%.20s/stat", name, one->d_name);
            FILE *file = fopen(line, "r");
            HOLDS(file && fgets(line, sizeof line, file));
            fclose(file);
            is_stopped = strrchr(line, ')')[2] == 'T';
        }
    closedir(threads);
}

/* Side 0 stops while side 1 waits for its acknowledgement: WRITEs of no bytes ask whether its
 * adapter answers. Then, as it seems, its host is gone. */
static void stopped(void)
{
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq, told;
    ptl_handle_md_t handle;
    ptl_event_t event;
    unsigned which;
    mine = calloc(2, LONG);
    other = calloc(1, LONG);
    CHECK(PtlInit());
    CHECK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &ni));
    CHECK(PtlGetPhysId(ni, &shared->ids[rank]));
    serve(ni, calloc(1, LONG), &told);
    shared->words[rank] = (uint64_t)getpid();
    together();
    if (!rank) {
        together();
        CHECK(PtlNIFini(ni));
        PtlFini();
        return;
    }
    ptl_md_t md = {.start = other, .length = LONG, .ct_handle = PTL_CT_NONE, .options = PTL_MD_EVENT_SEND_DISABLE};
    CHECK(PtlEQAlloc(ni, 64, &eq));
    md.eq_handle = eq;
    CHECK(PtlMDBind(ni, &md, &handle));
    for (int gone = 0; gone < 2; gone++) {
        CHECK(PtlPut(handle, 0, SHORT, PTL_ACK_REQ, shared->ids[0], INDEX, 0, 0, NULL, 0));
        HOLDS(ends(eq, PTL_EVENT_ACK, "put"));
        stops((pid_t)shared->words[0]);
        long before = posted(WRITE);
        if (gone)
            lose_peers();
        CHECK(PtlPut(handle, 0, SHORT, PTL_ACK_REQ, shared->ids[0], INDEX, 0, 0, NULL, 0));
        if (gone) {
            HOLDS(!ends(eq, PTL_EVENT_ACK, "put to nobody"));
        } else {
            HOLDS(PtlEQPoll(&eq, 1, 5000, &event, &which) == PTL_EQ_EMPTY);
            long asked = posted(WRITE) - before;
            /* each second, and one that has begun before this */
            if (asked < 2 || asked > 6)
                fprintf(stderr, "asked %ld times\n", asked);
            HOLDS(asked >= 2 && asked <= 6);
        }
        HOLDS(kill((pid_t)shared->words[0], SIGCONT) == 0);
        HOLDS(gone || ends(eq, PTL_EVENT_ACK, "put to who was stopped"));
    }
    together();
    CHECK(PtlNIFini(ni));
    PtlFini();
    puts("ok");
}

int main(int count, char **words)
{
    if (count == 2 && !strcmp(words[1], "stopped"))
        return run_sides(2, stopped);
    if (count != 3 && count != 4)
        return 2;
    if (!strcmp(words[1], "paths")) {
        length = (size_t)atol(words[2]);
        return length > LONG ? 2 : run_sides(2, paths);
    }
    failing_side = atoi(words[1]);
    victim = atol(words[2]);
    function = words[3]; /* the last word is followed by NULL */
    return run_sides(2, run);
}
