/* Libraries that are broken on purpose, one for each value of PLANT, which what compares has to find: preloaded ahead of libferriband_sdp.so. A fault comes up
 * once in a number of calls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Whether this call is to go wrong: one in so many of those that could. */
static int is_due(const char *plant, int often)
{
    static atomic_int calls;
    const char *planted = getenv("PLANT");

    return planted && strcmp(planted, plant) == 0 && atomic_fetch_add(&calls, 1) % often == often - 1;
}

static int is_tcp(int number)
{
    int protocol = 0;
    socklen_t length = sizeof protocol;

    return getsockopt(number, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) == 0 && protocol == IPPROTO_TCP;
}

ssize_t send(int number, const void *bytes, size_t length, int flags)
{
    ssize_t sent;

    if (length > 1 && is_due("byte lost", 20)) {
        sent = NEXT(send)(number, bytes, length - 1, flags);
        return sent == (ssize_t)(length - 1) ? (ssize_t)length : sent;
    }
    sent = NEXT(send)(number, bytes, length, flags);
    if (sent < 0 && errno == EPIPE && is_due("other error", 1))
        errno = ECONNRESET;
    return sent;
}

ssize_t recv(int number, void *bytes, size_t length, int flags)
{
    ssize_t got;

    /* a sequence has few receives, so one of fifty comes up in no second run of it */
    if (length > 1 && (is_due("byte twice", 20) || is_due("byte twice, seldom", 50))) {
        got = NEXT(recv)(number, bytes, 1, flags | MSG_PEEK);
        return got;
    }
    got = NEXT(recv)(number, bytes, length, flags);
    if (got == 0 && length > 0 && is_due("end lost", 1)) {
        errno = EAGAIN;
        return -1;
    }
    /* it sleeps on, whatever comes */
    if (got > 1 && !(flags & MSG_DONTWAIT) && is_due("wake-up lost", 5))
        for (;;)
            pause();
    return got;
}

int epoll_wait(int number, struct epoll_event *events, int most, int time)
{
    int count = NEXT(epoll_wait)(number, events, most, time);

    if (count > 0 && is_due("event lost", 3)) {
        memmove(events, events + 1, (size_t)(count - 1) * sizeof *events);
        return count - 1;
    }
    for (int at = 0; at < count; at++)
        if (events[at].events & EPOLLRDHUP && is_due("bit lost", 1))
            events[at].events &= ~(unsigned)EPOLLRDHUP;
    return count;
}

int poll(struct pollfd *polled, nfds_t count, int time)
{
    int ready = NEXT(poll)(polled, count, time);

    if (time == 0 && count > 0 && polled[0].events & POLLIN && !(polled[0].revents & POLLIN) && is_due("never ready", 1)) {
        ready += polled[0].revents == 0;
        polled[0].revents |= POLLIN;
    }
    return ready;
}

/* The names that calls have where the compiler knows the room. */
ssize_t __recv_chk(int number, void *bytes, size_t length, size_t room, int flags);
int __poll_chk(struct pollfd *polled, nfds_t count, int time, size_t room);

ssize_t __recv_chk(int number, void *bytes, size_t length, size_t room, int flags)
{
    (void)room;
    return recv(number, bytes, length, flags);
}

int __poll_chk(struct pollfd *polled, nfds_t count, int time, size_t room)
{
    (void)room;
    return poll(polled, count, time);
}

int getsockopt(int number, int level, int name, void *value, socklen_t *length)
{
    int answer = NEXT(getsockopt)(number, level, name, value, length);

    if (answer == 0 && level == IPPROTO_TCP && name == TCP_NODELAY && is_due("option", 1))
        *(int *)value = !*(int *)value;
    return answer;
}

int close(int number)
{
    /* what is unread resets no connection */
    if (is_tcp(number) && is_due("no reset", 1)) {
        char unread[4096];

        while (NEXT(recv)(number, unread, sizeof unread, MSG_DONTWAIT) > 0)
            ;
    }
    return NEXT(close)(number);
}
