/* Both ends send more than a ring holds before they read, and wait for room by poll, select, or epoll (lt, et): TCP holds it, so they go on. */
#include "pair.h"
#include <sys/epoll.h>
#include <sys/select.h>

#define PIECE 160000

static uint8_t bytes[PIECE];

/* Waits for room as the mode says. */
static void wait_for_room(int fd, const char *mode, int instance)
{
    struct pollfd polled = {.fd = fd, .events = POLLOUT};
    struct epoll_event event;
    fd_set set;

    if (strcmp(mode, "poll") == 0) {
        CHECK(poll(&polled, 1, 20000) == 1 && polled.revents == POLLOUT);
    } else if (strcmp(mode, "select") == 0) {
        struct timeval time = {.tv_sec = 20};

        FD_ZERO(&set);
        FD_SET(fd, &set);
        CHECK(select(fd + 1, NULL, &set, NULL, &time) == 1);
    } else {
        CHECK(epoll_wait(instance, &event, 1, 20000) == 1 && event.events == EPOLLOUT);
    }
}

static int side_of(int fd, const char *mode, uint64_t seed, uint64_t other)
{
    struct epoll_event event = {.events = EPOLLOUT | (strcmp(mode, "et") == 0 ? EPOLLET : 0)};
    int instance = epoll_create1(EPOLL_CLOEXEC);
    size_t done = 0;

    CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    CHECK(instance >= 0 && epoll_ctl(instance, EPOLL_CTL_ADD, fd, &event) == 0);
    fill(bytes, PIECE, seed, 0);
    while (done < PIECE) {
        ssize_t sent = send(fd, bytes + done, PIECE - done, 0);

        if (sent > 0) {
            done += (size_t)sent;
            continue;
        }
        CHECK(errno == EAGAIN);
        wait_for_room(fd, mode, instance);
    }
    CHECK(fcntl(fd, F_SETFL, 0) == 0);
    CHECK(read_all(fd, bytes, PIECE) == PIECE);
    printf("%s: %zu wrong\n", mode, differing(bytes, PIECE, other, 0));
    return 0;
}

static int server(int fd, const char *mode)
{
    pong(fd);
    return side_of(fd, mode, 1, 2);
}

static int client(int fd, const char *mode)
{
    ping(fd);
    return side_of(fd, mode, 2, 1);
}

int main(int argc, char **argv)
{
    return pair_main(argc, argv, server, client);
}
