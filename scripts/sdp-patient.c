/* For suites whose connections end before they can be taken over (scripts/sdp-tests --patient):
 * preloaded ahead of libferriband_sdp.so, it makes programs wait before their first call that
 * sends or receives on each connection, and after the first that sends. The connecting side sends
 * no bytes as soon as it is connected, which puts nothing on the wire and has the library ask, so
 * that what follows goes by SDP. Nothing else changes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
/* Nanoseconds. */
#define PATIENCE 15000000

enum { NUMBERS = 65536 };
/* How a number came to be a connection on which nothing was sent or received. */
enum { USED, CONNECTED, ACCEPTED };
static atomic_uchar made[NUMBERS];
/* The process has made a connection, which may be to itself: the other end is to be asked for
 * before the program uses this one. */
static atomic_int connects;

static void wait_a_little(void)
{
    struct timespec time = {0, PATIENCE};
    int error = errno;

    while (nanosleep(&time, &time) != 0 && errno == EINTR)
        ;
    errno = error;
}

static void is_made(int number, int how)
{
    if (number >= 0 && number < NUMBERS)
        atomic_store(&made[number], how);
}

static int is_tcp(int number)
{
    int protocol = 0;
    socklen_t length = sizeof protocol;

    return getsockopt(number, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) == 0 && protocol == IPPROTO_TCP;
}

/* A send of no bytes. Of a socket that has an error it would take that away, which the program is
 * to have. */
static void ask(int number)
{
    struct pollfd look = {number, 0, 0};

    if (NEXT(poll)(&look, 1, 0) == 0)
        NEXT(send)(number, "", 0, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Before a call: whether it is the first on a connection. */
static int begin(int number)
{
    struct sockaddr_in6 peer;
    socklen_t length = sizeof peer;
    int error = errno, how, first = 0;

    if (number < 0 || number >= NUMBERS || atomic_load(&made[number]) == USED || (how = atomic_exchange(&made[number], USED)) == USED)
        return 0;
    if (is_tcp(number)) {
        first = getpeername(number, (struct sockaddr *)&peer, &length) == 0;
        if (!first)
            is_made(number, how);
    }
    if (first && how == CONNECTED)
        ask(number);
    if (first)
        wait_a_little();
    errno = error;
    return first;
}

#define SENDS(name, parameters, arguments)          \
    ssize_t name parameters                         \
    {                                               \
        int first = begin(number);                  \
        ssize_t sent = NEXT(name) arguments;        \
                                                    \
        if (first)                                  \
            wait_a_little();                        \
        return sent;                                \
    }

SENDS(write, (int number, const void *bytes, size_t length), (number, bytes, length))
SENDS(writev, (int number, const struct iovec *parts, int count), (number, parts, count))
SENDS(send, (int number, const void *bytes, size_t length, int flags), (number, bytes, length, flags))
SENDS(sendmsg, (int number, const struct msghdr *message, int flags), (number, message, flags))
SENDS(sendto, (int number, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t to_length), (number, bytes, length, flags, to, to_length))
SENDS(sendfile, (int number, int from, off_t *offset, size_t length), (number, from, offset, length))
SENDS(sendfile64, (int number, int from, off64_t *offset, size_t length), (number, from, offset, length))

#define RECEIVES(name, parameters, arguments)       \
    ssize_t name parameters                         \
    {                                               \
        begin(number);                              \
        return NEXT(name) arguments;                \
    }

ssize_t __read_chk(int number, void *bytes, size_t length, size_t room);
ssize_t __recv_chk(int number, void *bytes, size_t length, size_t room, int flags);

RECEIVES(read, (int number, void *bytes, size_t length), (number, bytes, length))
RECEIVES(__read_chk, (int number, void *bytes, size_t length, size_t room), (number, bytes, length, room))
RECEIVES(readv, (int number, const struct iovec *parts, int count), (number, parts, count))
RECEIVES(recv, (int number, void *bytes, size_t length, int flags), (number, bytes, length, flags))
RECEIVES(__recv_chk, (int number, void *bytes, size_t length, size_t room, int flags), (number, bytes, length, room, flags))
RECEIVES(recvfrom, (int number, void *bytes, size_t length, int flags, struct sockaddr *from, socklen_t *from_length), (number, bytes, length, flags, from, from_length))
RECEIVES(recvmsg, (int number, struct msghdr *message, int flags), (number, message, flags))

int connect(int number, const struct sockaddr *to, socklen_t length)
{
    is_made(number, CONNECTED);
    int answer = NEXT(connect)(number, to, length), error = errno;

    /* One that does not wait stands already, on one host. */
    if (is_tcp(number)) {
        connects = 1;
        ask(number);
    }
    errno = error;
    return answer;
}

static void is_accepted(int number)
{
    is_made(number, ACCEPTED);
    if (number >= 0 && connects && is_tcp(number))
        wait_a_little();
}

int accept(int number, struct sockaddr *from, socklen_t *length)
{
    int accepted = NEXT(accept)(number, from, length);

    is_accepted(accepted);
    return accepted;
}

int accept4(int number, struct sockaddr *from, socklen_t *length, int flags)
{
    int accepted = NEXT(accept4)(number, from, length, flags);

    is_accepted(accepted);
    return accepted;
}
