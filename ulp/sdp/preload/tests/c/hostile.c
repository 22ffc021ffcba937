/* A peer writes any bytes into the memory that it shares with the server, while both use their
 * connection. The server's calls on that connection may answer what they like, but each ends in
 * time; its connection to another peer loses nothing. */
#include "pair.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#define PEERS 60
#define LIFE_US 50000
/* Time limits of the server's calls are 20 ms; a busy machine may need as long as this. */
#define ENDS_IN 5.0
/* What a segment of connections has at least, and its words before the rings. */
#define SEGMENT (8 << 20)
#define WORDS 36864

static uint8_t bytes[64 << 10];
static volatile int over;

/* Calls of all sorts on a connection whose peer keeps no rule; gives what the longest took. */
static double any_calls(int fd, uint64_t *state, double until)
{
    struct timeval limit = {.tv_usec = 20000};
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET};
    int set = epoll_create1(EPOLL_CLOEXEC), waiting;
    double longest = 0;
    uint8_t to[5000];

    CHECK(set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    while (seconds() < until) {
        struct pollfd wish = {.fd = fd, .events = POLLIN | POLLOUT};
        size_t length = 1 + draw(state) % sizeof to;
        double began = seconds(), took;
        ssize_t got = 1;

        switch (draw(state) % 8) {
        case 0:
            got = send(fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
            break;
        case 1:
            got = send(fd, bytes, length, MSG_NOSIGNAL);
            break;
        case 2:
            got = recv(fd, to, length, MSG_DONTWAIT);
            break;
        case 3:
            got = recv(fd, to, length, 0);
            break;
        case 4:
            recv(fd, to, length, MSG_PEEK | MSG_DONTWAIT);
            break;
        case 5:
            poll(&wish, 1, 1);
            break;
        case 6:
            epoll_wait(set, &event, 1, 1);
            break;
        default:
            ioctl(fd, FIONREAD, &waiting);
        }
        took = seconds() - began;
        longest = took > longest ? took : longest;
        if (got == 0 || (got < 0 && errno != EAGAIN))
            break;
    }
    close(set);
    return longest;
}

/* Writes into the words and the rings of each segment that this process has. */
static void *scribble(void *unused)
{
    uint64_t state = (uint64_t)getpid() * 0x9e3779b97f4a7c15u + 1, from, to;
    static const uint64_t special[] = {0, 1, 2, 3, 4, 5, ~0ull, 1ull << 31, 1ull << 32, 1ull << 63, 64 << 10, 0x7fffffffffffffff};
    char line[512], rights[8];
    struct {
        volatile uint64_t *words;
        size_t length;
    } segments[16];
    size_t count = 0, pause_us = 1 + draw(&state) % 400;
    FILE *maps = fopen("/proc/self/maps", "re");

    (void)unused;
    CHECK(maps);
    while (fgets(line, sizeof line, maps) && count < 16)
        if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3 && strcmp(rights, "rw-s") == 0 && strstr(line, "memfd:") && to - from >= SEGMENT) {
            segments[count].words = (volatile uint64_t *)from;
            segments[count++].length = to - from;
        }
    fclose(maps);
    while (count > 0) {
        size_t at, which = draw(&state) % count;
        uint64_t value = draw(&state);

        /* The first connections' words most of the time, then those of all, seldom the rings. */
        at = draw(&state);
        at = value % 16 == 0 ? at % segments[which].length : value % 4 == 0 ? at % WORDS : at % 1024;
        value = draw(&state) % 4 == 0 ? draw(&state) : special[draw(&state) % (sizeof special / sizeof *special)];
        if (draw(&state) % 4 == 0)
            value = segments[which].words[at / 8] + draw(&state) % 9 - 4;
        segments[which].words[at / 8] = value;
        /* A word that is wrong ends the connection at once, most of the time: some peers write
         * few. */
        if (pause_us > 100 || draw(&state) % 64 == 0)
            usleep((useconds_t)pause_us);
    }
    return NULL;
}

static int hostile(int fd)
{
    uint64_t state = (uint64_t)getpid() * 7919 + 1;
    pthread_t thread;

    CHECK(write(fd, "h", 1) == 1);
    ping(fd);
    CHECK(pthread_create(&thread, NULL, scribble, NULL) == 0);
    any_calls(fd, &state, seconds() + LIFE_US * 1e-6);
    _exit(0);
}

static int good(int fd)
{
    uint8_t back[7001];
    size_t wrong = 0;
    uint64_t at = 0;

    CHECK(write(fd, "g", 1) == 1);
    ping(fd);
    for (;; at += sizeof back) {
        fill(bytes, sizeof back, 5, at);
        write_all(fd, bytes, sizeof back);
        if (read_all(fd, back, sizeof back) < sizeof back)
            break;
        wrong += differing(back, sizeof back, 5, at);
    }
    printf("the other connection: %zu bytes wrong, went on: %d\n", wrong, at > 100 * sizeof back);
    return 0;
}

static int client(int fd, const char *mode)
{
    return strcmp(mode, "good") == 0 ? good(fd) : hostile(fd);
}

/* Echoes until the hostile peers are through, then lets its peer have an end. */
static void *echo(void *argument)
{
    int fd = *(int *)argument;
    uint8_t here[7001];

    pong(fd);
    while (!over && read_all(fd, here, sizeof here) == sizeof here)
        write_all(fd, here, sizeof here);
    shutdown(fd, SHUT_WR);
    while (read(fd, here, sizeof here) > 0)
        ;
    close(fd);
    return NULL;
}

int main(int argc, char **argv)
{
    int port, printed, silent, listening, fd, status, result;
    uint64_t state = 12345;
    double longest = 0;
    pid_t steady, child;
    pthread_t thread;
    char kind;

    signal(SIGPIPE, SIG_IGN);
    if (argc == 3)
        return client(dial(atoi(argv[2])), argv[1]);
    become_plain(argv);
    listening = listener(&port);
    steady = start_client("good", port, &printed);
    CHECK((fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC)) >= 0 && read(fd, &kind, 1) == 1 && kind == 'g');
    CHECK(pthread_create(&thread, NULL, echo, &fd) == 0);
    for (int i = 0; i < PEERS; i++) {
        double took;
        int enemy;

        child = start_client("hostile", port, &silent);
        CHECK((enemy = accept4(listening, NULL, NULL, SOCK_CLOEXEC)) >= 0 && read(enemy, &kind, 1) == 1 && kind == 'h');
        pong(enemy);
        took = any_calls(enemy, &state, seconds() + 60);
        longest = took > longest ? took : longest;
        CHECK(close(enemy) == 0 && close(silent) == 0 && waitpid(child, &status, 0) == child);
    }
    over = 1;
    printf("calls end: %d\n", longest < ENDS_IN);
    result = finish(steady, printed);
    CHECK(pthread_join(thread, NULL) == 0);
    return result;
}
