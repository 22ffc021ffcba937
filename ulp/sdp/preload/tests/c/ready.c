/* A server with several connections that never sleeps in a receive: it waits for readiness by epoll (lt, et, oneshot), poll or select. The client lets messages
 * go round on all of its connections; some are longer than what the kernel takes at once. */
#include "pair.h"
#include <sys/epoll.h>
#include <sys/select.h>

#define CONNECTIONS 4
#define MESSAGES 1500
#define LONGEST 300000

struct connection {
    int fd;
    uint8_t *bytes; /* what has not been sent back */
    size_t length, most;
    uint64_t sum;
};

static struct connection all[CONNECTIONS];
static int count, gone;

/* Sends back what it can. */
static void flush_out(struct connection *one)
{
    size_t sent = 0;

    while (sent < one->length) {
        ssize_t now = send(one->fd, one->bytes + sent, one->length - sent, 0);

        if (now < 0) {
            CHECK(errno == EAGAIN);
            break;
        }
        sent += (size_t)now;
    }
    memmove(one->bytes, one->bytes + sent, one->length - sent);
    one->length -= sent;
}

/* Takes all that is there, or one piece of it. */
static void take(struct connection *one, int until_empty)
{
    do {
        ssize_t got;

        if (one->most - one->length < 4096)
            CHECK((one->bytes = realloc(one->bytes, one->most = one->most * 2 + 8192)));
        got = recv(one->fd, one->bytes + one->length, one->most - one->length, 0);
        if (got < 0) {
            CHECK(errno == EAGAIN);
            return;
        }
        if (got == 0) {
            CHECK(one->length == 0 && close(one->fd) == 0);
            one->fd = -1;
            gone++;
            return;
        }
        one->length += (size_t)got;
        one->sum += (uint64_t)got;
    } while (until_empty);
}

static struct connection *add(int listening)
{
    struct connection *one = &all[count++];

    one->fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    CHECK(one->fd >= 0);
    return one;
}

static void by_epoll(int listening, const char *mode)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC), edge = strcmp(mode, "et") == 0;
    uint32_t flag = edge ? EPOLLET : strcmp(mode, "oneshot") == 0 ? EPOLLONESHOT : 0;
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = CONNECTIONS};

    CHECK(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, listening, &event) == 0);
    while (gone < CONNECTIONS) {
        struct epoll_event events[3];
        int ready = epoll_wait(epoll, events, 3, -1);

        CHECK(ready > 0 || errno == EINTR);
        for (int i = 0; i < ready; i++) {
            struct connection *one = &all[events[i].data.u32];

            if (events[i].data.u32 == CONNECTIONS) {
                one = add(listening);
                event = (struct epoll_event){.events = EPOLLIN | (edge ? EPOLLOUT : 0) | flag, .data.u32 = (uint32_t)(one - all)};
                CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, one->fd, &event) == 0);
                continue;
            }
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                take(one, edge);
            if (one->fd < 0)
                continue;
            flush_out(one);
            if (!edge) {
                event = (struct epoll_event){.events = EPOLLIN | (one->length ? EPOLLOUT : 0) | flag, .data.u32 = events[i].data.u32};
                CHECK(epoll_ctl(epoll, EPOLL_CTL_MOD, one->fd, &event) == 0);
            }
        }
    }
    close(epoll);
}

static void by_poll(int listening)
{
    while (gone < CONNECTIONS) {
        struct pollfd fds[CONNECTIONS + 1];

        for (int i = 0; i < CONNECTIONS; i++)
            fds[i] = (struct pollfd){.fd = i < count ? all[i].fd : -1, .events = (short)(POLLIN | (all[i].length ? POLLOUT : 0))};
        fds[CONNECTIONS] = (struct pollfd){.fd = listening, .events = POLLIN};
        CHECK(poll(fds, CONNECTIONS + 1, -1) > 0);
        for (int i = 0; i < CONNECTIONS; i++) {
            if (fds[i].revents & ~POLLOUT)
                take(&all[i], 0);
            if (fds[i].revents && all[i].fd >= 0)
                flush_out(&all[i]);
        }
        if (fds[CONNECTIONS].revents)
            add(listening);
    }
}

static void by_select(int listening)
{
    while (gone < CONNECTIONS) {
        fd_set in, out;
        int most = listening;

        FD_ZERO(&in);
        FD_ZERO(&out);
        FD_SET(listening, &in);
        for (int i = 0; i < count; i++) {
            if (all[i].fd < 0)
                continue;
            FD_SET(all[i].fd, &in);
            if (all[i].length)
                FD_SET(all[i].fd, &out);
            most = all[i].fd > most ? all[i].fd : most;
        }
        CHECK(select(most + 1, &in, &out, NULL, NULL) > 0);
        for (int i = 0; i < count; i++) {
            int fd = all[i].fd;

            if (fd >= 0 && FD_ISSET(fd, &in))
                take(&all[i], 0);
            if (all[i].fd >= 0 && (FD_ISSET(fd, &in) || FD_ISSET(fd, &out)))
                flush_out(&all[i]);
        }
        if (FD_ISSET(listening, &in))
            add(listening);
    }
}

static int client(const char *mode, int port)
{
    static uint8_t out[LONGEST], in[LONGEST];
    uint64_t state = 3, at[CONNECTIONS] = {0};
    int fds[CONNECTIONS];
    size_t wrong = 0;

    (void)mode;
    for (int i = 0; i < CONNECTIONS; i++)
        fds[i] = dial(port);
    for (int i = 0; i < MESSAGES; i++) {
        int which = (int)(draw(&state) % CONNECTIONS);
        size_t length = 1 + draw(&state) % (i % 50 == 49 ? LONGEST : 500);

        fill(out, length, (uint64_t)which, at[which]);
        write_all(fds[which], out, length);
        CHECK(read_all(fds[which], in, length) == length);
        wrong += differing(in, length, (uint64_t)which, at[which]);
        at[which] += length;
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        printf("client: %llu bytes\n", (unsigned long long)at[i]);
        close(fds[i]);
    }
    printf("client: %zu wrong\n", wrong);
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "lt";
    int port, printed, listening;
    uint64_t sum = 0;
    pid_t child;

    signal(SIGPIPE, SIG_IGN);
    if (argc == 3)
        return client(mode, atoi(argv[2]));
    become_plain(argv);
    listening = listener(&port);
    child = start_client(mode, port, &printed);
    if (strcmp(mode, "poll") == 0)
        by_poll(listening);
    else if (strcmp(mode, "select") == 0)
        by_select(listening);
    else
        by_epoll(listening, mode);
    for (int i = 0; i < CONNECTIONS; i++) {
        sum += all[i].sum;
        free(all[i].bytes);
    }
    printf("server: %llu bytes\n", (unsigned long long)sum);
    return finish(child, printed);
}
