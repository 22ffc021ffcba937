/* A preload that is broken on purpose: send passes on all bytes but the last, and says that it sent them all. What compares suites has to find it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/types.h>

ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
    ssize_t (*next)(int, const void *, size_t, int) = (ssize_t (*)(int, const void *, size_t, int))dlsym(RTLD_NEXT, "send");
    ssize_t sent = next(fd, bytes, length > 1 ? length - 1 : length, flags);

    return length > 1 && sent == (ssize_t)(length - 1) ? (ssize_t)length : sent;
}
