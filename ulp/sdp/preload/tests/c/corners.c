/* Ways to a connection that few programs take: threads with the least stack, options by which
 * calls tell more than bytes, calls by syscall(2), second names of the C library's functions, a
 * library that is loaded with RTLD_DEEPBIND, a mount namespace that is entered. */
#include "pair.h"
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>

#define IS(word) (strcmp(mode, word) == 0)

#ifdef PLUGIN
/* What is loaded by the name in the variable CORNERS_PLUGIN. */
size_t plugin_swap(int fd, void *bytes, size_t length)
{
    CHECK(send(fd, bytes, length, 0) == (ssize_t)length);
    return read_all(fd, bytes, length);
}
#else

ssize_t __read(int fd, void *to, size_t length);
ssize_t __write(int fd, const void *from, size_t length);
ssize_t __send(int fd, const void *from, size_t length, int flags);
int __poll(struct pollfd *polled, nfds_t count, int time);
int __close(int fd);

/* The server sends back what comes. */
static void echo(int fd)
{
    static uint8_t bytes[70000];
    ssize_t got;

    while ((got = read(fd, bytes, sizeof bytes)) > 0)
        write_all(fd, bytes, (size_t)got);
    printf("end: %zd\n", got);
}

static void swaps(int fd, int count)
{
    char back[5];

    for (int i = 0; i < count; i++)
        CHECK(send(fd, "hello", 5, 0) == 5 && recv(fd, back, 5, MSG_WAITALL) == 5 && memcmp(back, "hello", 5) == 0);
}

static void *with_little_stack(void *at)
{
    int fd = *(int *)at, instance = epoll_create1(EPOLL_CLOEXEC), file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    struct timeval none = {.tv_usec = 1000};
    char back[100];
    off_t from = 0;
    fd_set set;

    swaps(fd, 20);
    CHECK(poll(&polled, 1, 5) == 0);
    FD_ZERO(&set);
    FD_SET(fd, &set);
    CHECK(select(fd + 1, &set, NULL, NULL, &none) == 0);
    CHECK(epoll_ctl(instance, EPOLL_CTL_ADD, fd, &event) == 0 && epoll_wait(instance, &event, 1, 5) == 0);
    CHECK(sendfile(fd, file, &from, 100) == 100 && recv(fd, back, 100, MSG_WAITALL) == 100);
    swaps(fd, 20);
    printf("little stack: ok\n");
    return NULL;
}

static void little_stack(int fd)
{
    pthread_attr_t attributes;
    pthread_t thread;

    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 16384) == 0);
    CHECK(pthread_create(&thread, &attributes, with_little_stack, &fd) == 0 && pthread_join(thread, NULL) == 0);
}

/* What a receive of three of ten bytes tells beside them. */
static void shows(int fd, int level, int name, const char *what)
{
    char bytes[16], control[256];
    struct iovec part = {bytes, 3};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header;
    int on = 1;

    CHECK(setsockopt(fd, level, name, &on, sizeof on) == 0);
    /* the kernel begins to take the time a little later */
    usleep(100000);
    CHECK(send(fd, "0123456789", 10, 0) == 10 && recv(fd, bytes, 10, MSG_PEEK | MSG_WAITALL) == 10);
    CHECK(recvmsg(fd, &message, 0) == 3);
    header = CMSG_FIRSTHDR(&message);
    printf("%s: %.3s, level %d, kind %d\n", what, bytes, header ? header->cmsg_level : -1, header ? header->cmsg_type : -1);
    CHECK(recv(fd, bytes, 7, MSG_WAITALL) == 7);
}

static void peeks_on(int fd)
{
    char bytes[16];
    int at = 0;

    /* TCP's since Linux 6.9 */
    if (setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &at, sizeof at) != 0)
        return;
    CHECK(send(fd, "0123456789", 10, 0) == 10);
    for (int seen = 0; seen < 10;) {
        ssize_t got = recv(fd, bytes, 4, MSG_PEEK);

        CHECK(got > 0 && bytes[0] == '0' + seen);
        seen += (int)got;
    }
    printf("looked at all once\n");
}

/* A program without the library writes to the connection. */
static void executes(int fd)
{
    char number[16], *words[] = {"sh", "-c", "printf hello >&$0", number, NULL}, *none[] = {"PATH=/usr/bin:/bin", NULL};
    pid_t child;
    int status;

    snprintf(number, sizeof number, "%d", fd);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        syscall(SYS_execveat, AT_FDCWD, "/bin/sh", words, none, 0);
        _exit(127);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(send(fd, " and on", 7, 0) == 7 && shutdown(fd, SHUT_WR) == 0);
}

static void second_names(int fd)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    char bytes[8];

    CHECK(__write(fd, "under", 5) == 5 && __poll(&polled, 1, 10000) == 1 && polled.revents == POLLIN);
    CHECK(__read(fd, bytes, 5) == 5 && memcmp(bytes, "under", 5) == 0);
    CHECK(__send(fd, "score", 5, 0) == 5 && recv(fd, bytes, 5, MSG_WAITALL) == 5);
    printf("second names: %.5s\n", bytes);
    CHECK(__close(fd) == 0);
}

static void by_plugin(int fd)
{
    void *plugin = dlopen(getenv("CORNERS_PLUGIN"), RTLD_NOW | RTLD_DEEPBIND);
    size_t (*swap)(int, void *, size_t);
    char bytes[1000] = "deep";

    CHECK(plugin != NULL);
    swap = (size_t(*)(int, void *, size_t))dlsym(plugin, "plugin_swap");
    CHECK(swap != NULL);
    for (int i = 0; i < 100; i++)
        CHECK(swap(fd, bytes, sizeof bytes) == sizeof bytes && strcmp(bytes, "deep") == 0);
    swaps(fd, 10);
    printf("by the plugin: ok\n");
}

/* Root may; what is entered is where it is. */
static void enters_its_own_namespace(void)
{
    int space = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);

    CHECK(space >= 0);
    printf("setns: %s\n", setns(space, CLONE_NEWNS) == 0 ? "ok" : strerror(errno));
}

static int server(int fd, const char *mode)
{
    char bytes[100];

    pong(fd);
    if (IS("execveat")) {
        size_t got = read_all(fd, bytes, sizeof bytes);

        printf("%.*s\n", (int)got, bytes);
        return 0;
    }
    echo(fd);
    return 0;
}

static int client(int fd, const char *mode)
{
    ping(fd);
    if (IS("stack"))
        little_stack(fd);
    if (IS("rest"))
        shows(fd, IPPROTO_TCP, TCP_INQ, "the rest");
    if (IS("time"))
        shows(fd, SOL_SOCKET, SO_TIMESTAMP, "the time");
    if (IS("peeks"))
        peeks_on(fd);
    if (IS("execveat"))
        executes(fd);
    if (IS("names"))
        second_names(fd);
    if (IS("space"))
        enters_its_own_namespace();
    if (IS("deep"))
        by_plugin(fd);
    return 0;
}

int main(int argc, char **argv)
{
    return pair_main(argc, argv, server, client);
}
#endif
