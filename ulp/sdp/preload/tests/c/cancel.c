/* Threads that are cancelled while they wait for a pipe, and for a connection: by TCP, and after it went by SDP where it can. */
#include "pair.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>

struct wait {
    int fd, instance, kind, answer;
};

static const char *const kinds[] = {"poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait", "read", "recv", "recvmsg"};
#define KINDS (int)(sizeof kinds / sizeof *kinds)
/* Those that leave what they wait for. */
#define LOOKERS 6

static void *waits(void *argument)
{
    struct wait *wait = argument;
    struct pollfd polled = {.fd = wait->fd, .events = POLLIN};
    struct epoll_event event;
    sigset_t mask;
    fd_set set;
    char byte;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    sigemptyset(&mask);
    FD_ZERO(&set);
    FD_SET(wait->fd, &set);
    switch (wait->kind) {
    case 0:
        wait->answer = poll(&polled, 1, -1);
        break;
    case 1:
        wait->answer = ppoll(&polled, 1, NULL, &mask);
        break;
    case 2:
        wait->answer = select(wait->fd + 1, &set, NULL, NULL, NULL);
        break;
    case 3:
        wait->answer = pselect(wait->fd + 1, &set, NULL, NULL, NULL, &mask);
        break;
    case 4:
        wait->answer = epoll_wait(wait->instance, &event, 1, -1);
        break;
    case 5:
        wait->answer = epoll_pwait(wait->instance, &event, 1, -1, &mask);
        break;
    case 6:
        wait->answer = (int)read(wait->fd, &byte, 1);
        break;
    case 7:
        wait->answer = (int)recv(wait->fd, &byte, 1, 0);
        break;
    default:
        wait->answer = (int)recvmsg(wait->fd, &message, 0);
    }
    return NULL;
}

static int watch(int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    int instance = epoll_create1(EPOLL_CLOEXEC);

    CHECK(instance >= 0 && epoll_ctl(instance, EPOLL_CTL_ADD, fd, &event) == 0);
    return instance;
}

static void cancel_all(const char *what, int fd, int instance)
{
    /* a pipe has no recv */
    int kinds_of = strcmp(what, "pipe") == 0 ? LOOKERS + 1 : KINDS;

    for (int kind = 0; kind < kinds_of; kind++) {
        struct wait wait = {.fd = fd, .instance = instance, .kind = kind};
        pthread_t thread;
        void *result;

        CHECK(pthread_create(&thread, NULL, waits, &wait) == 0);
        usleep(20000);
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
        CHECK(result == PTHREAD_CANCELED);
        printf("%s: %s is cancelled\n", what, kinds[kind]);
    }
}

/* Whoever waits after that is woken: one thread of each kind. */
static void wake_all(int fd, int instance)
{
    struct wait wait[LOOKERS];
    pthread_t threads[LOOKERS];
    char byte = 'w';

    for (int kind = 0; kind < LOOKERS; kind++) {
        wait[kind] = (struct wait){.fd = fd, .instance = instance, .kind = kind};
        CHECK(pthread_create(&threads[kind], NULL, waits, &wait[kind]) == 0);
    }
    usleep(20000);
    CHECK(send(fd, &byte, 1, 0) == 1);
    for (int kind = 0; kind < LOOKERS; kind++) {
        CHECK(pthread_join(threads[kind], NULL) == 0 && wait[kind].answer == 1);
        printf("%s is woken\n", kinds[kind]);
    }
    CHECK(recv(fd, &byte, 1, 0) == 1 && byte == 'w');
}

/* A thread that fills the connection, whose peer does not read. */
static void *fills(void *argument)
{
    static char bytes[1 << 20];

    for (;;)
        CHECK(send(*(int *)argument, bytes, sizeof bytes, 0) > 0);
}

/* The peer reads all of it afterwards, and the connection goes on. */
static void cancel_sender(int fd)
{
    pthread_t thread;
    void *result;

    CHECK(pthread_create(&thread, NULL, fills, &fd) == 0);
    usleep(300000);
    CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED);
    printf("a sender is cancelled\n");
    CHECK(send(fd, "e", 1, 0) == 1);
}

/* Bytes up to the one that ends what was filled. */
static void drain(int fd)
{
    static char bytes[65536];
    ssize_t got;

    usleep(500000);
    do
        CHECK((got = recv(fd, bytes, sizeof bytes, 0)) > 0);
    while (bytes[got - 1] != 'e');
    CHECK(send(fd, "d", 1, 0) == 1);
}

static int server(int fd, const char *mode)
{
    char byte;

    (void)mode;
    pong(fd);
    for (int i = 0; i < 2; i++)
        CHECK(recv(fd, &byte, 1, 0) == 1 && send(fd, &byte, 1, 0) == 1);
    pong(fd);
    drain(fd);
    CHECK(recv(fd, &byte, 1, 0) == 0);
    return 0;
}

static int client(int fd, const char *mode)
{
    int ends[2], instance = watch(fd);
    char byte;

    (void)mode;
    CHECK(pipe(ends) == 0);
    cancel_all("pipe", ends[0], watch(ends[0]));
    cancel_all("before", fd, instance);
    ping(fd);
    cancel_all("after", fd, instance);
    for (int i = 0; i < 2; i++)
        wake_all(fd, instance);
    ping(fd);
    cancel_sender(fd);
    CHECK(recv(fd, &byte, 1, 0) == 1 && byte == 'd');
    return 0;
}

int main(int argc, char **argv)
{
    return pair_main(argc, argv, server, client);
}
