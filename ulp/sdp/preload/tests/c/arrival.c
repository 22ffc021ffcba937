/* One client with a connection that goes by SDP where it can, and with one that is new. The
 * server does other things while it sends on both, and then asks epoll, which lists what became
 * ready first. Ends and new connections are listed in the same way. */
#include "pair.h"
#include <sys/epoll.h>

static void both(int first, int second)
{
    write_all(first, "x", 1);
    write_all(second, "x", 1);
}

/* The server sleeps meanwhile. The byte by which it says that it has looked is one of the
 * connection that is known. */
static void looked(int fd)
{
    char byte;

    CHECK(read_all(fd, &byte, 1) == 1);
    usleep(30000);
}

static int client(int known, int port)
{
    int fresh, third;

    ping(known);
    fresh = dial(port);
    looked(known);
    both(fresh, known);
    looked(known);
    both(known, fresh);
    looked(known);
    close(fresh);
    write_all(known, "x", 1);
    looked(known);
    third = dial(port);
    write_all(known, "x", 1);
    looked(known);
    close(third);
    return 0;
}

static void look(int epoll, int known, const char *what)
{
    struct epoll_event events[8];
    char byte;
    int count;

    /* what was told stays on the kernel's list until a look finds nothing there */
    CHECK(epoll_wait(epoll, events, 8, 0) == 0);
    write_all(known, "y", 1);
    /* whoever sends has begun after 30 ms, and has long done so */
    usleep(150000);
    count = epoll_wait(epoll, events, 8, 5000);
    printf("%s:", what);
    for (int i = 0; i < count; i++)
        printf(" %c", (char)events[i].data.u64);
    printf("\n");
    CHECK(read(known, &byte, 1) == 1);
}

int main(int argc, char **argv)
{
    int port, printed, listening, known, fresh, epoll;
    pid_t child;
    struct epoll_event event = {.events = EPOLLIN};
    char byte;

    if (argc == 3)
        return client(dial(atoi(argv[2])), atoi(argv[2]));
    become_plain(argv);
    listening = listener(&port);
    child = start_client("", port, &printed);
    CHECK((known = accept(listening, NULL, NULL)) >= 0 && (epoll = epoll_create1(0)) >= 0);
    pong(known);
    event.data.u64 = 'k';
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, known, &event) == 0);
    CHECK((fresh = accept(listening, NULL, NULL)) >= 0);
    event.data.u64 = 'f';
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fresh, &event) == 0);
    event.data.u64 = 'l';
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, listening, &event) == 0);
    look(epoll, known, "fresh, known");
    CHECK(read(fresh, &byte, 1) == 1);
    look(epoll, known, "known, fresh");
    CHECK(read(fresh, &byte, 1) == 1);
    look(epoll, known, "an end of fresh, known");
    close(fresh);
    look(epoll, known, "a connection, known");
    write_all(known, "y", 1);
    return finish(child, printed);
}
