/* Looks ahead, bytes that are thrown away, several messages in one call: between exchanges that go by SDP where they can. */
#include "pair.h"
#include <sys/ioctl.h>

static uint8_t bytes[100000];

static void say(const char *what, ssize_t got)
{
    if (got < 0)
        printf("%s: %s\n", what, strerror(errno));
    else
        printf("%s: %zd %.*s\n", what, got, (int)(got < 20 ? got : 20), bytes);
}

/* Waits until so much can be read. */
static void available(int fd, int least)
{
    int there = 0;

    for (int i = 0; i < 5000 && there < least; i++) {
        CHECK(ioctl(fd, FIONREAD, &there) == 0);
        usleep(1000);
    }
    CHECK(there >= least);
}

static void looks(int fd)
{
    struct iovec parts[2] = {{bytes, 3}, {bytes + 3, 100}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

    say("nothing", recv(fd, bytes, 5, MSG_PEEK | MSG_DONTWAIT));
    write_all(fd, "go", 2);
    say("peek waits", recv(fd, bytes, 5, MSG_PEEK));
    available(fd, 10);
    say("peek", recv(fd, bytes, sizeof bytes, MSG_PEEK));
    say("recvmsg", recvmsg(fd, &message, MSG_PEEK));
    say("length", recv(fd, NULL, sizeof bytes, MSG_PEEK | MSG_TRUNC));
    say("thrown away", recv(fd, NULL, 4, MSG_TRUNC));
    write_all(fd, "go", 2);
    say("all", recv(fd, bytes, 16, MSG_PEEK | MSG_WAITALL));
    say("recv", recv(fd, bytes, 16, 0));
}

static void several(int fd)
{
    struct iovec parts[3] = {{bytes, 4}, {bytes + 4, 4}, {bytes + 8, 4}};
    struct mmsghdr messages[3];
    struct timespec limit = {.tv_sec = 5};
    int got;

    memset(messages, 0, sizeof messages);
    for (int i = 0; i < 3; i++)
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    got = recvmmsg(fd, messages, 3, MSG_DONTWAIT, NULL);
    printf("none: %d %s\n", got, strerror(errno));
    write_all(fd, "go", 2);
    got = recvmmsg(fd, messages, 3, MSG_WAITALL, &limit);
    printf("recvmmsg: %d, %u %u %u, %.12s\n", got, messages[0].msg_len, messages[1].msg_len, messages[2].msg_len, bytes);
    got = recvmmsg(fd, messages, 3, MSG_WAITFORONE, NULL);
    printf("for one: %d, %u %.4s\n", got, messages[0].msg_len, bytes);
    limit.tv_nsec = -1;
    got = recvmmsg(fd, messages, 3, 0, &limit);
    printf("no time: %d %s\n", got, strerror(errno));
    write_all(fd, "go", 2);
}

static int server(int fd, const char *mode)
{
    (void)mode;
    for (int i = 0; i < 3; i++) {
        looks(fd);
        pong(fd);
        several(fd);
        pong(fd);
    }
    say("end", recv(fd, bytes, 5, MSG_PEEK));
    say("end", recv(fd, bytes, 5, MSG_PEEK | MSG_WAITALL));
    say("end", recv(fd, bytes, 5, 0));
    return 0;
}

static int client(int fd, const char *mode)
{
    struct iovec parts[3] = {{"0123", 4}, {"4567", 4}, {"89ab", 4}};
    struct mmsghdr messages[3];

    (void)mode;
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < 3; i++)
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    for (int i = 0; i < 3; i++) {
        CHECK(read_all(fd, bytes, 2) == 2);
        write_all(fd, "abcdefghij", 10);
        CHECK(read_all(fd, bytes, 2) == 2);
        usleep(10000);
        write_all(fd, "klmnopq", 7);
        usleep(10000);
        write_all(fd, "rst", 3);
        ping(fd);
        CHECK(read_all(fd, bytes, 2) == 2);
        CHECK(sendmmsg(fd, messages, 3, 0) == 3 && messages[0].msg_len == 4 && messages[2].msg_len == 4);
        usleep(10000);
        CHECK(sendmmsg(fd, messages, 1, 0) == 1);
        CHECK(read_all(fd, bytes, 2) == 2);
        ping(fd);
    }
    return 0;
}

int main(int argc, char **argv)
{
    return pair_main(argc, argv, server, client);
}
