/* Calls that ask for more than bytes: time limits, looking ahead, all or nothing, how much there is, several buffers, several messages. */
#include "pair.h"
#include <sys/ioctl.h>
#include <sys/uio.h>

static uint8_t bytes[100000];

/* Waits until so much can be read. */
static int available(int fd, int least)
{
    int there = 0;

    for (int i = 0; i < 5000 && there < least; i++) {
        CHECK(ioctl(fd, FIONREAD, &there) == 0);
        usleep(1000);
    }
    return there;
}

static void looks(int fd)
{
    struct iovec parts[3] = {{bytes, 3}, {bytes + 10, 4}, {bytes + 20, 100}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
    struct mmsghdr several[2] = {{.msg_hdr = {.msg_iov = parts, .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = parts + 1, .msg_iovlen = 1}}};
    ssize_t got;

    printf("there: %d\n", available(fd, 26));
    got = recv(fd, bytes, 5, MSG_PEEK);
    printf("peek: %zd %.*s\n", got, (int)got, bytes);
    got = recv(fd, bytes, 5, 0);
    printf("recv: %zd %.*s, there: %d\n", got, (int)got, bytes, available(fd, 21));
    got = readv(fd, parts, 2);
    printf("readv: %zd %.3s %.4s\n", got, bytes, bytes + 10);
    CHECK(recvmmsg(fd, several, 2, MSG_DONTWAIT, NULL) == 2);
    printf("recvmmsg: %u %u %.3s %.4s\n", several[0].msg_len, several[1].msg_len, bytes, bytes + 10);
    got = recvmsg(fd, &message, 0);
    printf("recvmsg: %zd %.3s %.4s flags %x\n", got, bytes, bytes + 10, (unsigned)message.msg_flags);
    got = recv(fd, bytes, 1, MSG_DONTWAIT);
    printf("nothing: %zd %s\n", got, strerror(errno));
}

static void waits(int fd)
{
    struct timeval limit = {.tv_usec = 50000}, none = {0};
    socklen_t length = sizeof limit;
    double began = seconds(), took;
    ssize_t got;

    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    got = recv(fd, bytes, 1, 0);
    took = seconds() - began;
    printf("time limit: %zd %s, %s\n", got, strerror(errno), took >= 0.049 && took < 5 ? "in time" : "at another time");
    CHECK(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, &length) == 0);
    printf("time limit is about 50 ms: %d\n", limit.tv_sec == 0 && limit.tv_usec >= 50000 && limit.tv_usec < 60000);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none) == 0);
    write_all(fd, "go", 2);
    got = recv(fd, bytes, sizeof bytes, MSG_WAITALL);
    printf("all: %zd, %zu wrong\n", got, differing(bytes, (size_t)got, 4, 0));
    write_all(fd, "go", 2);
    got = recv(fd, bytes, sizeof bytes, MSG_WAITALL);
    printf("all until the end: %zd\n", got);
    got = recv(fd, bytes, 1, MSG_PEEK);
    printf("end: %zd, then %zd\n", got, recv(fd, bytes, 1, 0));
}

static int server(int fd, const char *mode)
{
    (void)mode;
    pong(fd);
    looks(fd);
    waits(fd);
    return 0;
}

static int client(int fd, const char *mode)
{
    struct iovec parts[2] = {{"abcdef", 6}, {"ghijklmnopq", 11}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    struct iovec rest = {"rstuvwxyz", 9};
    struct mmsghdr one = {.msg_hdr = {.msg_iov = &rest, .msg_iovlen = 1}};

    (void)mode;
    ping(fd);
    CHECK(sendmsg(fd, &message, MSG_NOSIGNAL) == 17 && sendmmsg(fd, &one, 1, 0) == 1 && one.msg_len == 9);
    CHECK(read_all(fd, bytes, 2) == 2);
    fill(bytes, sizeof bytes, 4, 0);
    for (size_t at = 0; at < sizeof bytes; at += 10000) {
        write_all(fd, bytes + at, 10000);
        usleep(2000);
    }
    CHECK(read_all(fd, bytes, 2) == 2);
    CHECK(sendto(fd, "last", 4, 0, NULL, 0) == 4 && close(fd) == 0);
    return 0;
}

int main(int argc, char **argv)
{
    return pair_main(argc, argv, server, client);
}
