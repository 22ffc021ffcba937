/* Random sequences of calls on a connection, by TCP alone and with a library preloaded, one call at
 * a time: what the calls answer is the same, but for what TCP leaves open (see act.h). A sequence
 * that differs is made shorter, and printed with the command that carries it out again. One that
 * does not differ each time is TCP's with its own timing, or a race of ours that is to be looked
 * at: it is printed, and counts only if bytes are wrong.
 *
 *   fuzz drive LIBRARY FROM COUNT    sequences of the seeds FROM to FROM + COUNT - 1
 *   fuzz steps LIBRARY MODE STEPS    one sequence, printed step by step
 *
 * FUZZ_READER names the static program; FUZZ_WITHOUT what is left out (bits, see plan.h); FUZZ_MOST
 * how many differences end it; with FUZZ_WHOLE sequences are not made shorter, and one that differs
 * once counts. Exit status: 0 all is the same, 1 something differs. */
#include "plan.h"
#include "world.h"

struct shared *shared;
uint8_t stream[2][PERIOD + LONGEST];
const char *reader_path;

enum { BATCH = 128 };
enum { SAME, DIFFERS, HANGS, REJECTED };

struct batch {
    /* So many differences end it; then `count` is what was carried out. */
    uint32_t limit;
    uint32_t count, generates, without, pause, patience, carried, prepared, edges, steps;
    struct {
        uint32_t what, step;
        struct result got;
    } outcomes[BATCH];
    struct trace traces[BATCH];
};

static const char *const op_names[] = {
#define NAME(name) #name,
    OPERATIONS(NAME)
#undef NAME
};

static void print_step(FILE *to, const struct step *step)
{
    fprintf(to, "%d%s:%s,%d,%d,%d,%d", step->actor, step->begun ? "+" : "", op_names[step->op], step->args[0], step->args[1], step->args[2], step->args[3]);
}

static void print_steps(FILE *to, const struct trace *trace)
{
    for (uint32_t at = 0; at < trace->count; at++) {
        print_step(to, &trace->steps[at]);
        if (at + 1 < trace->count)
            fputc(' ', to);
    }
}

static void print_result(FILE *to, const struct result *result)
{
    fprintf(to, "%d", result->value);
    if (result->error)
        fprintf(to, " (%s)", strerror(result->error));
    for (int at = 0; at < SLOTS; at++)
        fprintf(to, "%s%x", at == 0 ? " [" : " ", (unsigned)result->more[at]);
    fprintf(to, "]");
}

static void read_steps(const char *text, struct trace *trace)
{
    while (*text) {
        struct step *step = &trace->steps[trace->count++];
        char name[16], plus[2] = "";
        int actor, used, *to = step->args;

        CHECK(trace->count <= STEPS);
        if (sscanf(text, " %d%1[+]:%15[a-z],%d,%d,%d,%d%n", &actor, plus, name, &to[0], &to[1], &to[2], &to[3], &used) != 7)
            CHECK(sscanf(text, " %d:%15[a-z],%d,%d,%d,%d%n", &actor, name, &to[0], &to[1], &to[2], &to[3], &used) == 6);
        step->actor = (uint8_t)actor;
        step->begun = plus[0] == '+';
        for (step->op = 0; step->op < OPS && strcmp(op_names[step->op], name) != 0;)
            step->op++;
        CHECK(step->op < OPS && actor < ACTORS);
        for (text += used; *text == ' ';)
            text++;
    }
}

/* By TCP alone: the results are written down. */
static int record(struct batch *batch, struct trace *trace)
{
    struct plan plan = {.state = trace->seed * 0x9e3779b97f4a7c15u + 0x1234567, .without = batch->without};
    uint32_t last = trace->count;

    plan.open[0][0] = plan.open[1][0] = true;
    if (batch->generates) {
        trace->mode = (trace->seed / 16 % 4 == 3 ? ONE_PROCESS : 0) | (trace->seed % 4 == 0 ? UNPREPARED : 0);
        last = 8 + (uint32_t)below(&plan, STEPS - 20);
        trace->count = 0;
    }
    if (!open_connection(trace->mode))
        return REJECTED;
    for (uint32_t at = 0; at < STEPS; at++) {
        if (batch->generates && !next_step(&plan, &trace->steps[at], (int)at, (int)last))
            break;
        if (!batch->generates && at >= last)
            break;
        if (!carry_step(&trace->steps[at], NULL, &trace->results[at])) {
            trace->count = at + 1;
            if (getenv("FUZZ_REJECTED"))
                print_steps(stderr, trace), fputc('\n', stderr);
            return REJECTED;
        }
        trace->count = at + 1;
        learn(&plan, &trace->steps[at], &trace->results[at]);
    }
    return close_connection() ? SAME : REJECTED;
}

/* Whether bytes are doubled, lost or others, or the stream ends before all of them. However
 * seldom that is, it is no race of TCP's, which is asked twice before (is_timing). Bytes that
 * have not come by now do not come: their receivers have waited for them (BYTES_PATIENCE). */
static bool is_wrong(const struct step *step, const struct result *wanted, const struct result *got)
{
    switch (step->op) {
    case OP_recv:
        return got->more[0] != 0 || (wanted->value > 0 && got->value < wanted->value);
    case OP_drain:
        return got->more[0] != 0 || got->value < wanted->value;
    case OP_exec:
        return step->args[1] == 0 && wanted->value == 0 && got->value >= 1 && got->value <= 4;
    default:
        return false;
    }
}

/* The step whose result the step at `at` tells: of one that waits for a begun call, that call. */
static const struct step *told_by(const struct trace *trace, uint32_t at)
{
    const struct step *step = &trace->steps[at];

    if (step->op == OP_join)
        for (uint32_t begun = at; begun-- > 0;)
            if (trace->steps[begun].begun && trace->steps[begun].actor == step->args[0])
                return &trace->steps[begun];
    return step;
}

/* With the library: the results are compared. */
static int compare(struct batch *batch, uint32_t which)
{
    struct trace *trace = &batch->traces[which];
    struct result expected[ACTORS];
    bool opened = open_connection(trace->mode);

    batch->outcomes[which].step = 0;
    if (!opened)
        return HANGS;
    for (uint32_t at = 0; at < trace->count; at++) {
        struct step *step = &trace->steps[at];
        struct result *got = &batch->outcomes[which].got, *wanted = &trace->results[at];

        batch->outcomes[which].step = at;
        batch->steps++;
        if (step->begun) {
            /* what a begun call is to answer stands with the step that waits for it */
            for (uint32_t later = at; later < trace->count; later++)
                if (trace->steps[later].op == OP_join && trace->steps[later].args[0] == step->actor) {
                    expected[step->actor] = trace->results[later];
                    break;
                }
            wanted = &expected[step->actor];
        }
        if (!carry_step(step, wanted, got))
            return HANGS;
        if (!step->begun && memcmp(got, wanted, sizeof *got) != 0)
            return DIFFERS;
    }
    batch->outcomes[which].step = trace->count;
    return close_connection() ? SAME : HANGS;
}

/* A child of the driver's: does a batch, plain or with the library. */
static int work(const char *number, bool is_plain)
{
    int file = atoi(number);
    uint32_t found = 0;
    struct batch *batch = mmap(NULL, sizeof *batch, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

    CHECK(batch != MAP_FAILED);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    close(file);
    reader_path = getenv("FUZZ_READER");
    make_streams();
    shared->patience = is_plain ? 0 : batch->patience;
    shared->pause = is_plain ? batch->pause : 0;
    for (uint32_t which = 0; which < batch->count; which++) {
        if (!is_plain && batch->outcomes[which].what == REJECTED)
            continue;
        batch->outcomes[which].what = is_plain ? record(batch, &batch->traces[which]) : compare(batch, which);
        if (!is_plain && !(batch->traces[which].mode & UNPREPARED))
            batch->prepared++;
        if (batch->outcomes[which].what == SAME)
            continue;
        end_world();
        if (!is_plain && ++found >= batch->limit)
            batch->count = which + 1;
    }
    batch->carried += shared->carried;
    batch->edges += shared->edges;
    end_world();
    return 0;
}

/* Starts this program for a batch, and waits for it. */
static void run(const char *library, int file, bool is_plain)
{
    char number[16];
    int status;
    pid_t child;

    snprintf(number, sizeof number, "%d", file);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (is_plain)
            unsetenv("LD_PRELOAD");
        else
            setenv("LD_PRELOAD", library, 1);
        setenv("FERRIBAND_SDP_AFTER_EXCHANGES", "0", 1);
        execl("/proc/self/exe", "fuzz", is_plain ? "plain" : "under", number, (char *)NULL);
        _exit(127);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Whether a sequence differs, within so many runs. */
static bool still_differs(const char *library, struct batch *batch, int file, const struct trace *trace, int runs)
{
    batch->count = 1;
    batch->generates = 0;
    if (trace != &batch->traces[0])
        batch->traces[0] = *trace;
    run(library, file, true);
    for (int at = 0; at < runs && batch->outcomes[0].what != REJECTED; at++) {
        run(library, file, false);
        if (batch->outcomes[0].what != SAME)
            return true;
    }
    return false;
}

/* Whether it differs in each of three runs. */
static bool differs_each_time(const char *library, struct batch *batch, int file, const struct trace *trace)
{
    for (int run = 0; run < 3; run++)
        if (!still_differs(library, batch, file, trace, 1))
            return false;
    return true;
}

/* Leaves out what the difference does not need. */
static void shrink(const char *library, struct batch *batch, int file, struct trace *best)
{
    uint64_t until = microseconds() + 40000000;

    for (int size = 8; size >= 1; size /= 2)
        for (int from = (int)best->count - size; from >= 0 && microseconds() < until; from -= size) {
            struct trace less = *best;

            if (from + size > (int)less.count)
                continue;
            memmove(&less.steps[from], &less.steps[from + size], sizeof less.steps[0] * (less.count - (uint32_t)(from + size)));
            less.count -= (uint32_t)size;
            if (still_differs(library, batch, file, &less, 2)) {
                batch->traces[0].count = batch->outcomes[0].step + 1 < less.count ? batch->outcomes[0].step + 1 : less.count;
                *best = batch->traces[0];
            }
        }
}

static void print_difference(const struct batch *batch, uint32_t which)
{
    const struct trace *trace = &batch->traces[which];
    uint32_t at = batch->outcomes[which].step;

    if (batch->outcomes[which].what == HANGS)
        printf("  %s does not end\n", at < trace->count ? op_names[trace->steps[at].op] : "the end");
    if (batch->outcomes[which].what == DIFFERS) {
        printf("  ");
        print_step(stdout, &trace->steps[at]);
        printf(": by TCP ");
        print_result(stdout, &trace->results[at]);
        printf(", here ");
        print_result(stdout, &batch->outcomes[which].got);
        printf("\n");
    }
}

/* A sequence has differed. Whether TCP, given time, says what the library has said. */
static bool is_timing(const char *library, struct batch *batch, int file, const struct trace *trace, uint32_t at, const struct result *got)
{
    batch->pause = 2000;
    batch->traces[0] = *trace;
    batch->count = 1;
    batch->generates = 0;
    run(library, file, true);
    batch->pause = 0;
    return batch->outcomes[0].what == SAME && memcmp(&batch->traces[0].results[at], got, sizeof *got) == 0;
}

static int drive(const char *library, uint64_t from, uint64_t count)
{
    int files[2] = {memfd_create("batch", 0), memfd_create("one", 0)}, differ = 0, unsteady = 0, timing = 0, rejected = 0;
    uint64_t prepared = 0, carried = 0, edges = 0, steps = 0, done = 0;
    const char *without = getenv("FUZZ_WITHOUT"), *most = getenv("FUZZ_MOST");
    const int limit = most ? atoi(most) : 3;
    const bool whole = getenv("FUZZ_WHOLE") != NULL;
    struct batch *batches[2];

    for (int which = 0; which < 2; which++) {
        CHECK(files[which] >= 0 && ftruncate(files[which], sizeof(struct batch)) == 0);
        batches[which] = mmap(NULL, sizeof(struct batch), PROT_READ | PROT_WRITE, MAP_SHARED, files[which], 0);
        CHECK(batches[which] != MAP_FAILED);
        batches[which]->patience = 1000000;
        batches[which]->without = without ? (uint32_t)strtoul(without, NULL, 0) : 0;
    }
    while (done < count && differ < limit) {
        struct batch *batch = batches[0], *one = batches[1];

        batch->count = count - done < BATCH ? (uint32_t)(count - done) : BATCH;
        batch->generates = 1;
        batch->limit = (uint32_t)(limit - differ);
        batch->carried = batch->prepared = batch->edges = batch->steps = 0;
        for (uint32_t which = 0; which < batch->count; which++)
            batch->traces[which].seed = from + done + which;
        run(library, files[0], true);
        run(library, files[0], false);
        done += batch->count;
        prepared += batch->prepared;
        carried += batch->carried;
        edges += batch->edges;
        steps += batch->steps;
        for (uint32_t which = 0; which < batch->count && differ < limit; which++) {
            struct trace trace = batch->traces[which];
            uint32_t what = batch->outcomes[which].what, at = batch->outcomes[which].step;

            rejected += what == REJECTED;
            if (what != DIFFERS && what != HANGS)
                continue;
            if (what == DIFFERS && is_timing(library, one, files[1], &trace, at, &batch->outcomes[which].got)) {
                timing++;
                continue;
            }
            bool wrong = what == DIFFERS && is_wrong(told_by(&trace, at), &trace.results[at], &batch->outcomes[which].got);

            trace.count = at + 1 < trace.count ? at + 1 : trace.count;
            printf("seed %llu differs at step %u:\n", (unsigned long long)trace.seed, at);
            print_difference(batch, which);
            if (whole) {
                differ++;
            } else if (differs_each_time(library, one, files[1], &trace)) {
                struct trace less = trace;

                differ++;
                shrink(library, one, files[1], &less);
                if (still_differs(library, one, files[1], &less, 5)) {
                    print_difference(one, 0);
                    trace = less;
                }
            } else if (wrong) {
                differ++;
                printf("  (not each time, and the bytes are wrong)\n");
            } else {
                unsteady++;
                printf("  (not each time)\n");
            }
            printf("  fuzz steps %s %u '", library, trace.mode);
            print_steps(stdout, &trace);
            printf("'\n");
            fflush(stdout);
        }
    }
    printf("%llu sequences from seed %llu, %llu steps: %d differ, %d do not each time, %d were TCP's own timing, %d were not to be had by TCP; %llu of %llu connections went by SDP; %llu edges more than TCP's\n",
           (unsigned long long)done, (unsigned long long)from, (unsigned long long)steps, differ, unsteady, timing, rejected, (unsigned long long)carried, (unsigned long long)prepared,
           (unsigned long long)edges);
    if (prepared > 20 && carried * 10 < prepared * 9)
        printf("fewer than nine of ten connections went by SDP: this shows nothing\n");
    return differ > 0 || (prepared > 20 && carried * 10 < prepared * 9);
}

static int show(const char *library, uint32_t mode, const char *text)
{
    int file = memfd_create("one", 0), differs = 0;
    struct batch *one;
    struct trace trace = {.mode = mode};

    CHECK(file >= 0 && ftruncate(file, sizeof *one) == 0);
    one = mmap(NULL, sizeof *one, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(one != MAP_FAILED);
    one->patience = 1000000;
    read_steps(text, &trace);
    for (int run = 0; run < 10 && !differs; run++)
        differs = still_differs(library, one, file, &trace, 1);
    for (uint32_t at = 0; at < one->traces[0].count; at++) {
        printf("  ");
        print_step(stdout, &one->traces[0].steps[at]);
        printf(" = ");
        print_result(stdout, &one->traces[0].results[at]);
        printf("\n");
    }
    printf("%s\n", one->outcomes[0].what == REJECTED ? "it does not end by TCP" : differs ? "differs:" : "the same ten times");
    print_difference(one, 0);
    return differs;
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 3 && (strcmp(what, "plain") == 0 || strcmp(what, "under") == 0))
        return work(argv[2], what[0] == 'p');
    if (argc == 5 && strcmp(what, "drive") == 0)
        return drive(argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
    if (argc == 5 && strcmp(what, "steps") == 0)
        return show(argv[2], (uint32_t)atoi(argv[3]), argv[4]);
    fprintf(stderr, "usage: fuzz drive LIBRARY FROM COUNT | fuzz steps LIBRARY MODE STEPS\n");
    return 2;
}
