/* The actors, and a controller that tells one after the other what to do. */
#ifndef WORLD_H
#define WORLD_H
#include "act.h"

struct table tables[TABLES];
static uint32_t world_mode;
static bool world_lives;

/* Seconds after which a call does not end. */
#define PATIENCE 10

static void be_actor(int actor);

static void *begin_actor(void *actor)
{
    be_actor((int)(intptr_t)actor);
    return NULL;
}

static void start_thread(int actor)
{
    pthread_attr_t attributes;
    pthread_t thread;

    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 4 << 20) == 0);
    CHECK(pthread_create(&thread, &attributes, begin_actor, (void *)(intptr_t)actor) == 0);
}

static void close_all(struct table *table)
{
    for (int slot = 0; slot < SLOTS; slot++)
        if (table->numbers[slot] >= 0) {
            close(table->numbers[slot]);
            table->numbers[slot] = -1;
        }
}

/* A forked child begins: it has its parent's sockets, and no epoll instances. */
static void begin_child(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    tables[2] = tables[0];
    for (int slot = SOCKETS; slot < SLOTS; slot++)
        if (tables[2].numbers[slot] >= 0) {
            close(tables[2].numbers[slot]);
            tables[2].numbers[slot] = -1;
        }
    if (world_mode & ONE_PROCESS)
        close_all(&tables[1]);
    close(tables[0].listener);
    be_actor(2);
}

static void do_fork(struct result *got)
{
    pid_t child = fork();

    if (child == 0)
        begin_child();
    shared->processes[2] = child;
    got->value = child > 0 ? 0 : -1;
}

static void ask(int actor, const struct step *step, const struct result *expected)
{
    struct command *command = &shared->commands[actor];

    command->step = *step;
    if (expected)
        command->expected = *expected;
    atomic_fetch_add(&command->asked, 1);
    futex(&command->asked, FUTEX_WAKE, 1, NULL);
}

/* Waits until an actor has done what it was asked for; false: it takes too long. */
static bool answered(int actor, struct result *got, int seconds)
{
    struct command *command = &shared->commands[actor];
    uint64_t until = microseconds() + (uint64_t)seconds * 1000000;
    uint32_t done;

    while ((done = command->done) != command->asked) {
        struct timespec time = {0, 100000000};

        if (microseconds() > until)
            return false;
        futex(&command->done, FUTEX_WAIT, done, &time);
    }
    if (got)
        *got = command->got;
    return true;
}

static void do_reap(struct result *got)
{
    struct step leave = {.op = OP_reap};
    int status;

    if (shared->processes[2] <= 0)
        return;
    ask(2, &leave, NULL);
    CHECK(waitpid(shared->processes[2], &status, 0) == shared->processes[2]);
    shared->commands[2].done = shared->commands[2].asked;
    shared->processes[2] = 0;
    got->value = status;
}

static void do_open(int actor)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)shared->port)};
    int one = 1, number;

    if (actor == 1) {
        number = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(number >= 0 && connect(number, (struct sockaddr *)&address, sizeof address) == 0);
    } else {
        number = accept4(tables[0].listener, NULL, NULL, SOCK_CLOEXEC);
    }
    CHECK(number >= 0 && setsockopt(number, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
    tables[actor].numbers[0] = number;
}

/* Bytes that went by TCP, both ways (struct tcp_info of the kernel, which the C library's is the beginning of). */
static uint64_t by_tcp(int number)
{
    uint64_t words[29] = {0};
    socklen_t length = sizeof words;

    CHECK(getsockopt(number, IPPROTO_TCP, TCP_INFO, words, &length) == 0);
    return words[128 / 8] + words[200 / 8];
}

/* A byte there and back, until the connection is carried by something else than TCP, if that is to be. */
static void do_carry(int actor, struct result *got)
{
    int number = tables[actor].numbers[0];
    char byte = 'c';

    for (int round = 0; byte == 'c'; round++) {
        uint64_t before;

        if (actor == 1) {
            CHECK(recv(number, &byte, 1, 0) == 1 && send(number, &byte, 1, 0) == 1);
            continue;
        }
        before = by_tcp(number);
        byte = round < (expects() ? 600 : 2) && !got->value ? 'c' : 'e';
        CHECK(send(number, &byte, 1, 0) == 1 && recv(number, &byte, 1, 0) == 1);
        got->value = by_tcp(number) == before;
        if (expects() && round > 3)
            usleep(50);
    }
}

/* What an option holds back is let go. */
static void do_smooth(const struct step *step, int number, struct result *got)
{
    struct step get = *step;
    int off = step->args[1] == NODELAY;

    do_option(step, number, got);
    get.op = OP_getopt;
    if (got->value == 0)
        do_option(&get, number, got);
    setsockopt(number, IPPROTO_TCP, step->args[1] == NODELAY ? TCP_NODELAY : TCP_CORK, &off, sizeof off);
}

static void carry_out(int actor, const struct step *step, struct result *got)
{
    struct table *table = &tables[table_of(actor)];
    int slot = step->args[0], end = end_of(actor), number = slot >= 0 && slot < SLOTS ? table->numbers[slot] : -1;

    memset(got, 0, sizeof *got);
    if (shared->pause)
        usleep(shared->pause);
    errno = 0;
    switch (step->op) {
    case OP_send:
        return do_send(step, number, end, got);
    case OP_recv:
        return do_recv(step, number, end, got);
    case OP_fill:
        return do_fill(number, end, got);
    case OP_drain:
        return do_drain(number, end, got);
    case OP_shutdown:
        got->value = shutdown(number, step->args[1]);
        got->error = got->value < 0 ? errno : 0;
        return;
    case OP_close:
        got->value = step->args[1] ? close_range((unsigned)number, (unsigned)number, 0) : close(number);
        got->error = got->value < 0 ? errno : 0;
        table->numbers[slot] = -1;
        return;
    case OP_dup:
        return do_dup(step, table, number, got);
    case OP_scm:
        return do_scm(step, table, number, got);
    case OP_nonblock:
        if (step->args[2])
            got->value = ioctl(number, FIONBIO, &step->args[1]);
        else
            got->value = fcntl(number, F_SETFL, step->args[1] ? O_NONBLOCK : 0);
        got->more[0] = fcntl(number, F_GETFL);
        return;
    case OP_setopt:
        if (step->args[1] <= CORK)
            return do_smooth(step, number, got);
        return do_option(step, number, got);
    case OP_getopt:
        return do_option(step, number, got);
    case OP_ioctl:
        return do_ioctl(step, number, got);
    case OP_poll:
        return do_poll(step, table, got);
    case OP_select:
        return do_select(step, table, got);
    case OP_epoll:
        table->numbers[slot] = epoll_create1(EPOLL_CLOEXEC);
        memset(shared->registered[table_of(actor)][slot - SOCKETS], 0, sizeof shared->registered[0][0]);
        return;
    case OP_ctl:
        return do_ctl(step, table, actor, got);
    case OP_wait:
        return do_wait(step, table, actor, got);
    case OP_fork:
        return do_fork(got);
    case OP_reap:
        return actor == 2 ? _exit(0) : do_reap(got);
    case OP_exec:
        return do_exec(step, number, end, got);
    case OP_open:
        return do_open(actor);
    case OP_carry:
        return do_carry(actor, got);
    case OP_clear:
        if (actor == 0)
            do_reap(got);
        close_all(table);
        return;
    }
}

static void be_actor(int actor)
{
    struct command *command = &shared->commands[actor];

    mine = command;
    for (;;) {
        uint32_t asked;

        while ((asked = command->asked) == command->done)
            futex(&command->asked, FUTEX_WAIT, asked, NULL);
        carry_out(actor, &command->step, &command->got);
        command->done = asked;
        futex(&command->done, FUTEX_WAKE, 1, NULL);
    }
}

static void listen_here(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int number = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(number >= 0 && bind(number, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(number, 64) == 0 && getsockname(number, (struct sockaddr *)&address, &length) == 0);
    tables[0].listener = number;
    shared->port = ntohs(address.sin_port);
    futex(&shared->port, FUTEX_WAKE, 1, NULL);
}

/* The process of an end. */
static void be_process(int end)
{
    struct sigaction broken = {.sa_handler = on_sigpipe};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigaction(SIGPIPE, &broken, NULL);
    if (end == 0)
        listen_here();
    start_thread(3 + end);
    if (world_mode & ONE_PROCESS) {
        start_thread(1);
        start_thread(4);
    }
    be_actor(end);
}

static void end_world(void)
{
    if (!world_lives)
        return;
    /* a forked child ends with its parent */
    if (shared->processes[2] > 0)
        kill(shared->processes[2], SIGKILL);
    for (int end = 0; end < 2; end++)
        if (shared->processes[end] > 0) {
            kill(shared->processes[end], SIGKILL);
            waitpid(shared->processes[end], NULL, 0);
        }
    world_lives = false;
}

static void begin_world(uint32_t mode)
{
    if (world_lives && world_mode == mode)
        return;
    end_world();
    memset(shared->commands, 0, sizeof shared->commands);
    memset(shared->processes, 0, sizeof shared->processes);
    memset(tables, 0xff, sizeof tables);
    shared->port = 0;
    world_mode = mode;
    for (int end = 0; end < (mode & ONE_PROCESS ? 1 : 2); end++) {
        pid_t process = fork();

        CHECK(process >= 0);
        if (process == 0)
            be_process(end);
        shared->processes[end] = process;
    }
    for (int tries = 0; shared->port == 0; tries++) {
        struct timespec time = {0, 100000000};

        CHECK(tries < 100);
        futex(&shared->port, FUTEX_WAIT, 0, &time);
    }
    world_lives = true;
}

/* One step and its result; false: it does not end. */
static bool carry_step(const struct step *step, const struct result *expected, struct result *got)
{
    memset(got, 0, sizeof *got);
    if (step->op == OP_join)
        return answered(step->args[0], got, PATIENCE);
    if (!answered(step->actor, NULL, PATIENCE))
        return false;
    ask(step->actor, step, expected);
    if (!step->begun)
        return answered(step->actor, got, PATIENCE);
    /* it is asleep by then, most of the time */
    usleep(150);
    return true;
}

/* A fresh connection; false: that does not end. */
static bool open_connection(uint32_t mode)
{
    struct step open = {.op = OP_open}, carry = {.op = OP_carry};
    struct result got;

    begin_world(mode & ONE_PROCESS);
    shared->filled = false;
    shared->sent[0] = shared->sent[1] = shared->received[0] = shared->received[1] = 0;
    ask(1, &open, NULL);
    if (!answered(1, NULL, PATIENCE))
        return false;
    ask(0, &open, NULL);
    if (!answered(0, NULL, PATIENCE))
        return false;
    if (mode & UNPREPARED)
        return true;
    ask(1, &carry, NULL);
    ask(0, &carry, NULL);
    if (!answered(0, &got, PATIENCE) || !answered(1, NULL, PATIENCE))
        return false;
    shared->carried += got.value != 0;
    return true;
}

static bool close_connection(void)
{
    struct step clear = {.op = OP_clear};

    for (int actor = ACTORS - 1; actor >= 3; actor--)
        if (!answered(actor, NULL, PATIENCE))
            return false;
    for (int actor = 1; actor >= 0; actor--) {
        ask(actor, &clear, NULL);
        if (!answered(actor, NULL, PATIENCE))
            return false;
    }
    return true;
}
#endif
