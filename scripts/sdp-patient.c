/* For suites whose connections end before they can be taken over (scripts/sdp-tests --patient): preloaded ahead of libferriband_sdp.so, it makes programs wait
 * around their first send on each connection. The two sides agree meanwhile, so that what follows goes by SDP. Nothing else changes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
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
static atomic_uchar is_known[NUMBERS];

static void wait_a_little(void)
{
    struct timespec time = {0, PATIENCE};
    int error = errno;

    while (nanosleep(&time, &time) != 0 && errno == EINTR)
        ;
    errno = error;
}

/* Whether a number is a connection of TCP on which nothing was sent. */
static int is_first(int number)
{
    int protocol = 0, error = errno;
    socklen_t length = sizeof protocol;
    struct sockaddr_in6 peer;
    socklen_t peer_length = sizeof peer;

    if (number < 0 || number >= NUMBERS || atomic_exchange(&is_known[number], 1))
        return 0;
    int first = getsockopt(number, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) == 0 && protocol == IPPROTO_TCP &&
                getpeername(number, (struct sockaddr *)&peer, &peer_length) == 0;
    errno = error;
    return first;
}

static void forget(int number)
{
    if (number >= 0 && number < NUMBERS)
        atomic_store(&is_known[number], 0);
}

#define SENDS(name, parameters, arguments)          \
    ssize_t name parameters                         \
    {                                               \
        int first = is_first(number);               \
        ssize_t sent;                               \
                                                    \
        if (first)                                  \
            wait_a_little();                        \
        sent = NEXT(name) arguments;                \
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

int connect(int number, const struct sockaddr *to, socklen_t length)
{
    forget(number);
    return NEXT(connect)(number, to, length);
}

int accept(int number, struct sockaddr *from, socklen_t *length)
{
    int accepted = NEXT(accept)(number, from, length);

    forget(accepted);
    return accepted;
}

int accept4(int number, struct sockaddr *from, socklen_t *length, int flags)
{
    int accepted = NEXT(accept4)(number, from, length, flags);

    forget(accepted);
    return accepted;
}
