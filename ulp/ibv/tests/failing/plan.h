/* Calls that fail because the environment says so, for programs that know nothing of this library.
 *
 * FERRIBAND_FAIL  CALL:N:HOW[,CALL:N:HOW]...  call number N of CALL, counted from 1, fails; N+: it
 *                 and each later one. CALL is a function of verbs.h, ibv_modify_qp/STATE for the
 *                 calls to that state (RESET, INIT, RTR, RTS, SQD, ERR) alone, or `completion`: the
 *                 N-th that is polled. HOW is an errno by name or number; of a completion its
 *                 status, a number of enum ibv_wc_status.
 * FERRIBAND_FAIL_LOG  a file to which each process appends what it has let fail (`failed CALL N`),
 *                 and at its end how many calls there were of each function (`called CALL N`), and
 *                 how many objects were not taken back (`alive N`).
 */
#ifndef PLAN_H
#define PLAN_H

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

enum { MOST_PLANNED = 16, MOST_CALLS = 128 };

static struct planned {
    char name[48];
    long at;
    int is_each, how;
} planned[MOST_PLANNED];
static struct called {
    const char *_Atomic name;
    atomic_long count;
} called[MOST_CALLS];
/* Of the call that fails in this thread; 0: what is usual. */
static __thread int planned_errno;

static const struct {
    const char *name;
    int number;
} ERRNOS[] = {
    {"EPERM", EPERM},     {"EINTR", EINTR},   {"EIO", EIO},       {"EAGAIN", EAGAIN}, {"ENOMEM", ENOMEM},
    {"EACCES", EACCES},   {"EFAULT", EFAULT}, {"EBUSY", EBUSY},   {"ENODEV", ENODEV}, {"EINVAL", EINVAL},
    {"ENOSPC", ENOSPC},   {"ENOSYS", ENOSYS}, {"ENXIO", ENXIO},   {"EMFILE", EMFILE}, {"ETIMEDOUT", ETIMEDOUT},
    {"EOPNOTSUPP", EOPNOTSUPP},
};

static void refuse_plan(const char *what)
{
    fprintf(stderr, "FERRIBAND_FAIL means nothing from here on: %s\n", what);
    abort();
}

/* Which planned call this one is; NULL: it goes on. */
static const struct planned *is_planned(const char *name)
{
    struct called *its = called;
    const char *none = NULL;
    if (!*planned->name && !getenv("FERRIBAND_FAIL_LOG"))
        return NULL;
    /* names are literals of this file, and one place alone may have taken a name */
    for (;; its++, none = NULL) {
        if (its == called + MOST_CALLS)
            refuse_plan("more functions than there is room for");
        if (atomic_compare_exchange_strong(&its->name, &none, name) || !strcmp(none, name))
            break;
    }
    long number = atomic_fetch_add(&its->count, 1) + 1;
    for (struct planned *one = planned; one < planned + MOST_PLANNED; one++)
        if (!strcmp(one->name, name) && (one->at == number || (one->is_each && number > one->at)))
            return one;
    return NULL;
}

static void write_down(const char *format, ...)
{
    char line[200];
    const char *path = getenv("FERRIBAND_FAIL_LOG");
    int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    va_list given;
    va_start(given, format);
    int length = vsnprintf(line, sizeof line, format, given);
    va_end(given);
    if (file >= 0) {
        if (write(file, line, length) != length)
            refuse_plan("the log cannot be written");
        close(file);
    }
}

/* Counts a call; whether it shall fail. */
static const struct planned *plan_fails(const char *name)
{
    const struct planned *one = is_planned(name);
    if (one)
        write_down("failed %s %ld\n", name, one->at);
    return one;
}

static void plan_one(struct planned *one, const char *text)
{
    char how[16];
    int end = 0;
    if (sscanf(text, "%47[^:]:%ld%n", one->name, &one->at, &end) != 2 || one->at < 1)
        refuse_plan(text);
    one->is_each = text[end] == '+';
    if (sscanf(text + end + one->is_each, ":%15[A-Z0-9]", how) != 1)
        refuse_plan(text);
    one->how = atoi(how);
    for (size_t at = 0; at < sizeof ERRNOS / sizeof *ERRNOS; at++)
        if (!strcmp(ERRNOS[at].name, how))
            one->how = ERRNOS[at].number;
    if (one->how < 1)
        refuse_plan(text);
}

__attribute__((constructor)) static void plan(void)
{
    const char *text = getenv("FERRIBAND_FAIL");
    for (struct planned *one = planned; text && *text; one++) {
        if (one == planned + MOST_PLANNED)
            refuse_plan(text);
        plan_one(one, text);
        text = strchr(text, ',');
        text = text ? text + 1 : NULL;
    }
}

__attribute__((destructor)) static void tell_calls(void)
{
    for (struct called *its = called; its < called + MOST_CALLS && its->name; its++)
        write_down("called %s %ld\n", its->name, atomic_load(&its->count));
    if (called->name)
        write_down("alive %ld\n", failing_alive());
}

#endif
