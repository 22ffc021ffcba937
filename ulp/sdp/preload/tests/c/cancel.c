/* Threads that are cancelled while they wait for a pipe, and for a connection: by TCP, and after it went by SDP where it can. */
#include "pair.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>

struct wait {
    int fd, instance, kind, answer;
};

static const char *const kinds[] = {"poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait"};
#define KINDS (int)(sizeof kinds / sizeof *kinds)

static void *waits(void *argument)
{
    struct wait *wait = argument;
    struct pollfd polled = {.fd = wait->fd, .events = POLLIN};
    struct epoll_event event;
    sigset_t mask;
    fd_set set;

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
    default:
        wait->answer = epoll_pwait(wait->instance, &event, 1, -1, &mask);
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
    for (int kind = 0; kind < KINDS; kind++) {
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
    struct wait wait[KINDS];
    pthread_t threads[KINDS];
    char byte = 'w';

    for (int kind = 0; kind < KINDS; kind++) {
        wait[kind] = (struct wait){.fd = fd, .instance = instance, .kind = kind};
        CHECK(pthread_create(&threads[kind], NULL, waits, &wait[kind]) == 0);
    }
    usleep(20000);
    CHECK(send(fd, &byte, 1, 0) == 1);
    for (int kind = 0; kind < KINDS; kind++) {
        CHECK(pthread_join(threads[kind], NULL) == 0 && wait[kind].answer == 1);
        printf("%s is woken\n", kinds[kind]);
    }
    CHECK(recv(fd, &byte, 1, 0) == 1 && byte == 'w');
}

static int server(int fd, const char *mode)
{
    char byte;

    (void)mode;
    pong(fd);
    for (int i = 0; i < 2; i++)
        CHECK(recv(fd, &byte, 1, 0) == 1 && send(fd, &byte, 1, 0) == 1);
    pong(fd);
    CHECK(recv(fd, &byte, 1, 0) == 0);
    return 0;
}

static int client(int fd, const char *mode)
{
    int ends[2], instance = watch(fd);

    (void)mode;
    CHECK(pipe(ends) == 0);
    cancel_all("pipe", ends[0], watch(ends[0]));
    cancel_all("before", fd, instance);
    ping(fd);
    cancel_all("after", fd, instance);
    for (int i = 0; i < 2; i++)
        wake_all(fd, instance);
    ping(fd);
    return 0;
}

int main(int argc, char **argv)
{
    return pair_main(argc, argv, server, client);
}
