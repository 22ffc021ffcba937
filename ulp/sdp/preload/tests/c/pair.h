/* Two ends of a TCP connection in two processes, each with a function of its own. What the client prints comes after what the server prints, so that
 * the output of two runs can be compared. The variable PAIR_PLAIN (client or server) names a side that runs without LD_PRELOAD. */
#ifndef PAIR_H
#define PAIR_H
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Ends the program, which then has printed something else than its other runs. */
#define CHECK(holds)                                                                         \
    do {                                                                                     \
        if (!(holds)) {                                                                      \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #holds, strerror(errno)); \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

typedef int (*side)(int fd, const char *mode);

/* The byte at a place of a stream that begins with `seed`. */
static inline uint8_t pattern(uint64_t seed, uint64_t at)
{
    uint64_t word = (at + seed * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;

    return (uint8_t)(word >> 56);
}

static inline void fill(uint8_t *to, size_t length, uint64_t seed, uint64_t at)
{
    for (size_t i = 0; i < length; i++)
        to[i] = pattern(seed, at + i);
}

/* Counts the bytes that are not those of the stream. */
static inline size_t differing(const uint8_t *bytes, size_t length, uint64_t seed, uint64_t at)
{
    size_t count = 0;

    for (size_t i = 0; i < length; i++)
        count += bytes[i] != pattern(seed, at + i);
    return count;
}

/* A generator of numbers that are the same in each run (xorshift). */
static inline uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static inline void write_all(int fd, const void *bytes, size_t length)
{
    const char *from = bytes;

    while (length > 0) {
        ssize_t written = write(fd, from, length);

        CHECK(written > 0);
        from += written;
        length -= (size_t)written;
    }
}

/* Reads so many bytes, or fewer at the end of the stream. */
static inline size_t read_all(int fd, void *bytes, size_t length)
{
    char *to = bytes;
    size_t sum = 0;

    while (sum < length) {
        ssize_t got = read(fd, to + sum, length - sum);

        CHECK(got >= 0);
        if (got == 0)
            break;
        sum += (size_t)got;
    }
    return sum;
}

static inline int listener(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(fd, 128) == 0 && getsockname(fd, (struct sockaddr *)&address, &length) == 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static inline int dial(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
    return fd;
}

/* Byte after byte, there and back: enough of them that the connection goes by SDP where it can. */
#define ROUNDS 2000

static inline void ping(int fd)
{
    for (int i = 0; i < ROUNDS; i++) {
        uint8_t byte = (uint8_t)i, back;

        CHECK(send(fd, &byte, 1, 0) == 1 && recv(fd, &back, 1, 0) == 1 && back == byte);
    }
}

static inline void pong(int fd)
{
    for (int i = 0; i < ROUNDS; i++) {
        uint8_t byte;

        CHECK(recv(fd, &byte, 1, 0) == 1 && byte == (uint8_t)i && send(fd, &byte, 1, 0) == 1);
    }
}

static inline double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Starts this program anew as the client of a port; gives its process, and where it prints. */
static inline pid_t start_client(const char *mode, int port, int *printed)
{
    const char *plain = getenv("PAIR_PLAIN"), *preload = getenv("PAIR_PRELOAD");
    char number[16];
    int out[2];
    pid_t child;

    CHECK(pipe2(out, O_CLOEXEC) == 0);
    fflush(stdout);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(out[1], 1);
        if (plain && strcmp(plain, "client") == 0)
            unsetenv("LD_PRELOAD");
        if (preload)
            setenv("LD_PRELOAD", preload, 1);
        snprintf(number, sizeof number, "%d", port);
        execl("/proc/self/exe", "client", mode, number, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    *printed = out[0];
    return child;
}

/* A server that shall be plain begins anew without the library, and keeps its name for the client. */
static inline void become_plain(char **argv)
{
    const char *plain = getenv("PAIR_PLAIN"), *preload = getenv("LD_PRELOAD");

    if (plain && strcmp(plain, "server") == 0 && preload) {
        setenv("PAIR_PRELOAD", preload, 1);
        unsetenv("LD_PRELOAD");
        execv("/proc/self/exe", argv);
        CHECK(!"exec");
    }
}

/* Waits for the client, and prints what it has printed. */
static inline int finish(pid_t child, int printed)
{
    char text[4096];
    int status;
    ssize_t got;

    fflush(stdout);
    while ((got = read(printed, text, sizeof text)) > 0)
        write_all(1, text, (size_t)got);
    CHECK(waitpid(child, &status, 0) == child);
    return status == 0 ? 0 : 1;
}

static inline int pair_main(int argc, char **argv, side server, side client)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int port, printed, listening, fd, result;
    pid_t child;

    signal(SIGPIPE, SIG_IGN);
    if (argc == 3)
        return client(dial(atoi(argv[2])), mode);
    become_plain(argv);
    listening = listener(&port);
    child = start_client(mode, port, &printed);
    fd = accept(listening, NULL, NULL);
    CHECK(fd >= 0);
    close(listening);
    result = server(fd, mode);
    return finish(child, printed) | result;
}

#endif
