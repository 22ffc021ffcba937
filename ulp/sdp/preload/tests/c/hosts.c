// A client and a server on two hosts. The client sends bytes of a sequence, the server sends them
// back, and the client compares. Both end by a FIN. The client says how much of what it has sent
// went by TCP. What happens in between is the mode's:
//   blocking   nothing
//   epoll      the server waits by epoll, without blocking
//   stream     the client sends all before it reads
//   exec       the server is executed anew in the middle, with the socket
//   plain      as exec, without the preloaded library
//   fork       the server's child goes on in the middle
//   die        the server is killed in the middle: the client says what it is told
//   half       the client says "half" in the middle, and goes on when it reads a line
//   closes     the client makes many connections, one after the other, and closes each without
//              shutdown(2) once all has come back: the server reads the end
//   alive      the client looks at SO_KEEPALIVE, which the library has for itself until it is set
//   forks      a thread at each side forks without end from before the connection to the last byte
//
// With TAKEN_OVER=1 in the environment, client and server first exchange bytes until TCP carries
// none in either direction. A connection that is not taken over in some seconds is closed, and
// another one made.
//
// hosts server PORT MODE ROUNDS | hosts client ADDRESS PORT MODE ROUNDS
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST 5000
// Connections of the mode closes.
#define CLOSES 12
// Seconds that both sides of the mode forks have.
#define FORKS_SECONDS 60
// What is exchanged before all else: so many of the one byte, and the other once that is over.
#define WARM 64
#define BEFORE 'w'
#define BEGIN 'b'
// Exchanges in which TCP carries nothing, and seconds that a connection has to come to them.
#define STILL 20
#define SECONDS 5

static void check(int good, const char *what) {
    if (good) return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

struct bytes {
    uint64_t state;
};

static uint64_t next(struct bytes *of) {
    of->state = of->state * 6364136223846793005u + 1;
    return of->state >> 40;
}

static int waits_for_take_over(void) {
    const char *taken_over = getenv("TAKEN_OVER");
    return taken_over && *taken_over == '1';
}

// Bytes that the kernel has sent by TCP, and received.
static void by_tcp(int fd, uint64_t bytes[2]) {
    uint64_t info[64] = {0};
    socklen_t length = sizeof info;
    check(getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &length) == 0, "TCP_INFO");
    // tcpi_bytes_sent and tcpi_bytes_received
    bytes[0] = info[25];
    bytes[1] = info[16];
}

static int send_all(int fd, const char *from, size_t length) {
    while (length > 0) {
        ssize_t sent = send(fd, from, length, MSG_NOSIGNAL);
        if (sent < 0) return -1;
        from += sent;
        length -= (size_t)sent;
    }
    return 0;
}

// Sends back up to `most` bytes; gives how many came before the end.
static uint64_t echo(int fd, uint64_t most) {
    static char buffer[16384];
    uint64_t all = 0;
    while (all < most) {
        size_t room = sizeof buffer;
        if (most - all < room) room = (size_t)(most - all);
        ssize_t got = recv(fd, buffer, room, 0);
        check(got >= 0, "server recv");
        if (got == 0) break;
        check(send_all(fd, buffer, (size_t)got) == 0, "server send");
        all += (uint64_t)got;
    }
    return all;
}

// Sends back what comes before all else; 0 if the client has ended the connection instead.
static int warm(int fd) {
    char buffer[WARM];
    for (;;) {
        ssize_t got = recv(fd, buffer, sizeof buffer, 0);
        if (got <= 0) return 0;
        check(send_all(fd, buffer, (size_t)got) == 0, "server warm send");
        if (buffer[got - 1] == BEGIN) return 1;
    }
}

static atomic_int forks_on;

static void *fork_on(void *argument) {
    int forks = 0;
    while (atomic_load(&forks_on)) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        int status;
        check(child > 0 && waitpid(child, &status, 0) == child && status == 0, "fork");
        forks++;
    }
    *(int *)argument = forks;
    return NULL;
}

// Gives 0 if the connection has ended before the other bytes began.
static int echo_by_epoll(int fd, int begun) {
    static char buffer[16384];
    size_t held = 0, sent = 0;
    check(fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "nonblock");
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    check(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
    for (;;) {
        check(epoll_wait(set, &event, 1, 60000) == 1, "epoll_wait");
        if (sent == held) {
            ssize_t got = recv(fd, buffer, sizeof buffer, 0);
            if (got < 0 && errno == EAGAIN) continue;
            check(got >= 0, "server recv");
            if (got == 0) break;
            held = (size_t)got;
            sent = 0;
            begun |= buffer[0] == BEGIN;
        }
        ssize_t put = send(fd, buffer + sent, held - sent, MSG_NOSIGNAL);
        check(put >= 0 || errno == EAGAIN, "server send");
        if (put > 0) sent += (size_t)put;
        event.events = sent < held ? EPOLLOUT : EPOLLIN;
        check(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) == 0, "epoll_ctl");
    }
    close(set);
    return begun;
}

static uint64_t total(int rounds) {
    struct bytes lengths = {7};
    uint64_t all = 0;
    for (int round = 0; round < rounds; round++) all += 1 + next(&lengths) % MOST;
    return all;
}

static int server(char **arguments) {
    const char *mode = arguments[3];
    int rounds = atoi(arguments[4]), on = 1;
    struct sockaddr_in at = {.sin_family = AF_INET};
    at.sin_port = htons((uint16_t)atoi(arguments[2]));
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    check(bind(listener, (struct sockaddr *)&at, sizeof at) == 0, "bind");
    check(listen(listener, 8) == 0, "listen");
    printf("listens\n");
    fflush(stdout);
    for (int each = 0; strcmp(mode, "closes") == 0 && each < CLOSES;) {
        int fd = accept(listener, NULL, NULL);
        check(fd >= 0, "accept");
        if (!waits_for_take_over() || warm(fd)) {
            echo(fd, UINT64_MAX);
            each++;
        }
        close(fd);
    }
    if (strcmp(mode, "closes") == 0) return 0;
    int fd = accept(listener, NULL, NULL);
    check(fd >= 0, "accept");
    int warms = waits_for_take_over(), by_epoll = strcmp(mode, "epoll") == 0;
    while (by_epoll ? !echo_by_epoll(fd, !warms) : warms && !warm(fd)) {
        close(fd);
        fd = accept(listener, NULL, NULL);
        check(fd >= 0, "accept again");
    }
    close(listener);
    uint64_t half = total(rounds) / 2;
    if (strcmp(mode, "exec") == 0 || strcmp(mode, "plain") == 0) {
        echo(fd, half);
        char number[16];
        snprintf(number, sizeof number, "%d", fd);
        if (strcmp(mode, "plain") == 0) unsetenv("LD_PRELOAD");
        execl("/proc/self/exe", "hosts", "goes-on", number, (char *)NULL);
        check(0, "exec");
    } else if (strcmp(mode, "fork") == 0) {
        echo(fd, half);
        pid_t child = fork();
        if (child == 0) {
            echo(fd, UINT64_MAX);
            _exit(0);
        }
        close(fd);
        int status;
        check(waitpid(child, &status, 0) == child && status == 0, "child");
        return 0;
    } else if (strcmp(mode, "die") == 0) {
        echo(fd, half);
        kill(getpid(), SIGKILL);
    } else if (!by_epoll) {
        echo(fd, UINT64_MAX);
    }
    close(fd);
    return 0;
}

static void *send_rounds(void *argument) {
    int *fd = argument;
    struct bytes bytes = {1}, lengths = {7};
    static char buffer[MOST];
    for (int round = 0; round < fd[1]; round++) {
        size_t length = 1 + next(&lengths) % MOST;
        for (size_t at = 0; at < length; at++) buffer[at] = (char)next(&bytes);
        check(send_all(fd[0], buffer, length) == 0, "client send");
    }
    check(shutdown(fd[0], SHUT_WR) == 0, "shutdown");
    return NULL;
}

static void compare(int fd, size_t length, struct bytes *bytes) {
    static char buffer[16384];
    while (length > 0) {
        size_t room = length < sizeof buffer ? length : sizeof buffer;
        ssize_t got = recv(fd, buffer, room, 0);
        if (got <= 0) {
            printf("%s\n", got == 0 ? "end" : strerror(errno));
            exit(got == 0 || errno != ECONNRESET);
        }
        for (ssize_t at = 0; at < got; at++)
            if (buffer[at] != (char)next(bytes)) {
                fprintf(stderr, "another byte\n");
                exit(1);
            }
        length -= (size_t)got;
    }
}

static void exchange(int fd, char byte, size_t length) {
    char sent[WARM], back[WARM];
    memset(sent, byte, length);
    check(send_all(fd, sent, length) == 0, "client warm send");
    for (size_t at = 0; at < length;) {
        ssize_t got = recv(fd, back, length - at, 0);
        check(got > 0, "client warm recv");
        for (ssize_t each = 0; each < got; each++) check(back[each] == byte, "warm byte");
        at += (size_t)got;
    }
}

// Whether TCP carries nothing any more, before the connection is too old.
static int is_taken_over(int fd) {
    uint64_t before[2] = {0}, now[2];
    time_t until = time(NULL) + SECONDS;
    for (int still = 0; still < STILL;) {
        if (time(NULL) >= until) return 0;
        exchange(fd, BEFORE, WARM);
        by_tcp(fd, now);
        still = memcmp(before, now, sizeof now) == 0 ? still + 1 : 0;
        memcpy(before, now, sizeof now);
    }
    exchange(fd, BEGIN, 1);
    return 1;
}

static int connect_to(const struct sockaddr_in *to) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    check(connect(fd, (const struct sockaddr *)to, sizeof *to) == 0, "connect");
    return fd;
}

static int option(int fd, int level, int name, int by_kernel) {
    int (*asks)(int, int, int, void *, socklen_t *) = getsockopt;
    // the C library's own, which the preloaded library does not stand before
    if (by_kernel) *(void **)&asks = dlsym(dlopen("libc.so.6", RTLD_NOW), "getsockopt");
    int value = -1;
    socklen_t length = sizeof value;
    check(asks(fd, level, name, &value, &length) == 0, "getsockopt");
    return value;
}

// SO_KEEPALIVE and TCP_KEEPIDLE as the kernel has them.
static void check_kernel(int fd, int is_on, int idle) {
    int has = option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    int silent = option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1);
    if (has == is_on && silent == idle) return;
    fprintf(stderr, "SO_KEEPALIVE %d, TCP_KEEPIDLE %d, not %d and %d\n", has, silent, is_on, idle);
    exit(1);
}

static void keeps_alive(int fd) {
    int fresh = socket(AF_INET, SOCK_STREAM, 0), idle = option(fresh, IPPROTO_TCP, TCP_KEEPIDLE, 1);
    close(fresh);
    check_kernel(fd, 1, 60);
    check(option(fd, SOL_SOCKET, SO_KEEPALIVE, 0) == 0, "SO_KEEPALIVE is seen");
    check(option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 0) == idle, "TCP_KEEPIDLE is seen");
    int own = 100, on = 1;
    check(setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &own, sizeof own) == 0, "TCP_KEEPIDLE");
    check_kernel(fd, 0, own);
    check(option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 0) == own, "TCP_KEEPIDLE is the program's");
    check(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on) == 0, "SO_KEEPALIVE");
    check_kernel(fd, 1, own);
    check(option(fd, SOL_SOCKET, SO_KEEPALIVE, 0) == on, "SO_KEEPALIVE is the program's");
}

// A connection that is taken over, if it is to be.
static int begin(const struct sockaddr_in *to) {
    int fd = connect_to(to);
    while (waits_for_take_over() && !is_taken_over(fd)) {
        close(fd);
        fd = connect_to(to);
    }
    return fd;
}

static int closing_client(const struct sockaddr_in *to, int rounds) {
    static char buffer[MOST];
    uint64_t by = 0;
    for (int each = 0; each < CLOSES; each++) {
        int fd = begin(to);
        uint64_t before[2], after[2];
        by_tcp(fd, before);
        struct bytes bytes = {1}, expected = {1}, lengths = {7};
        for (int round = 0; round < rounds; round++) {
            size_t length = 1 + next(&lengths) % MOST;
            for (size_t at = 0; at < length; at++) buffer[at] = (char)next(&bytes);
            check(send_all(fd, buffer, length) == 0, "client send");
            compare(fd, length, &expected);
        }
        by_tcp(fd, after);
        by += after[0] - before[0];
        close(fd);
    }
    printf("all came back, %d%% by tcp\n", (int)(by * 100 / (CLOSES * total(rounds))));
    return 0;
}

static int client(char **arguments) {
    const char *mode = arguments[4];
    int rounds = atoi(arguments[5]);
    struct sockaddr_in to = {.sin_family = AF_INET};
    to.sin_port = htons((uint16_t)atoi(arguments[3]));
    check(inet_pton(AF_INET, arguments[2], &to.sin_addr) == 1, "address");
    if (strcmp(mode, "closes") == 0) return closing_client(&to, rounds);
    int fd = begin(&to);
    if (strcmp(mode, "alive") == 0) keeps_alive(fd);
    uint64_t before[2], after[2];
    by_tcp(fd, before);
    struct bytes bytes = {1}, expected = {1}, lengths = {7};
    if (strcmp(mode, "stream") == 0) {
        pthread_t thread;
        int what[2] = {fd, rounds};
        check(pthread_create(&thread, NULL, send_rounds, what) == 0, "thread");
        compare(fd, (size_t)total(rounds), &expected);
        pthread_join(thread, NULL);
    }
    static char buffer[MOST];
    for (int round = 0; round < rounds && strcmp(mode, "stream") != 0; round++) {
        if (strcmp(mode, "half") == 0 && round == rounds / 2) {
            char line[16];
            printf("half\n");
            fflush(stdout);
            check(fgets(line, sizeof line, stdin) != NULL, "a line");
        }
        size_t length = 1 + next(&lengths) % MOST;
        for (size_t at = 0; at < length; at++) buffer[at] = (char)next(&bytes);
        if (send_all(fd, buffer, length) != 0) {
            printf("%s\n", strerror(errno));
            return errno != ECONNRESET && errno != EPIPE;
        }
        compare(fd, length, &expected);
    }
    if (strcmp(mode, "stream") != 0) check(shutdown(fd, SHUT_WR) == 0, "shutdown");
    check(recv(fd, buffer, 1, 0) == 0, "end");
    by_tcp(fd, after);
    int percent = (int)((after[0] - before[0]) * 100 / total(rounds));
    printf("all came back, %d%% by tcp\n", percent);
    return 0;
}

static int side(char **arguments, const char *mode, int (*does)(char **)) {
    if (strcmp(mode, "forks") != 0) return does(arguments);
    pthread_t thread;
    int forks = 0;
    alarm(FORKS_SECONDS);
    atomic_store(&forks_on, 1);
    check(pthread_create(&thread, NULL, fork_on, &forks) == 0, "thread");
    int status = does(arguments);
    atomic_store(&forks_on, 0);
    pthread_join(thread, NULL);
    check(forks > 0, "no fork");
    return status;
}

int main(int count, char **arguments) {
    if (count == 5 && strcmp(arguments[1], "server") == 0) return side(arguments, arguments[3], server);
    if (count == 6 && strcmp(arguments[1], "client") == 0) return side(arguments, arguments[4], client);
    if (count == 3 && strcmp(arguments[1], "goes-on") == 0) {
        echo(atoi(arguments[2]), UINT64_MAX);
        return 0;
    }
    fprintf(stderr, "see the head of hosts.c\n");
    return 2;
}
