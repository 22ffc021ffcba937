/* A parent and its child wait for the same connection, each by poll or by an epoll instance of its own: both are told of each byte. One of them takes it. */
#include "pair.h"
#include <sys/epoll.h>

#define TIMES 60

static int watch(int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    int instance = epoll_create1(EPOLL_CLOEXEC);

    CHECK(instance >= 0 && epoll_ctl(instance, EPOLL_CTL_ADD, fd, &event) == 0);
    return instance;
}

/* The parent and the child wait in turn by poll and by epoll, in all four combinations. */
static void wait_for_byte(int fd, int instance, int by_poll)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    struct epoll_event event;

    if (by_poll)
        CHECK(poll(&polled, 1, 20000) == 1);
    else
        CHECK(epoll_wait(instance, &event, 1, 20000) == 1);
}

static int server(int fd, const char *mode)
{
    int told[2], taken[2], instance, status;
    char byte;
    pid_t child;

    (void)mode;
    pong(fd);
    CHECK(pipe(told) == 0 && pipe(taken) == 0);
    child = fork();
    CHECK(child >= 0);
    instance = watch(fd);
    for (int i = 0; i < TIMES; i++) {
        wait_for_byte(fd, instance, child == 0 ? i % 2 : i / 2 % 2);
        if (child == 0) {
            CHECK(write(told[1], "t", 1) == 1 && read(taken[0], &byte, 1) == 1);
            continue;
        }
        CHECK(read(told[0], &byte, 1) == 1);
        CHECK(recv(fd, &byte, 1, 0) == 1 && byte == (char)i);
        CHECK(write(taken[1], "t", 1) == 1 && send(fd, &byte, 1, 0) == 1);
    }
    if (child == 0)
        _exit(0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    printf("both were told\n");
    return 0;
}

static int client(int fd, const char *mode)
{
    (void)mode;
    ping(fd);
    for (int i = 0; i < TIMES; i++) {
        char byte = (char)i;

        usleep(2000);
        CHECK(send(fd, &byte, 1, 0) == 1 && recv(fd, &byte, 1, 0) == 1 && byte == (char)i);
    }
    return 0;
}

int main(int argc, char **argv)
{
    return pair_main(argc, argv, server, client);
}
