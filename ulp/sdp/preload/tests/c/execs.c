/* In the middle of a transfer a side becomes a program without our library (READER, a static one), which reads or writes the rest; or a forked child of it does. */
#include "pair.h"

#define LENGTH (4u << 20)
#define FIRST 1000000

static uint8_t bytes[LENGTH];

/* Does the first part, and becomes READER for the rest. */
static void change(int fd, const char *mode)
{
    char number[16];
    size_t wrong = 0;

    if (strcmp(mode, "writes") == 0) {
        fill(bytes, FIRST, 1, 0);
        write_all(fd, bytes, FIRST);
    } else {
        CHECK(read_all(fd, bytes, FIRST) == FIRST);
        wrong = differing(bytes, FIRST, 1, 0);
    }
    printf("first: %d bytes, %zu wrong\n", FIRST, wrong);
    fflush(stdout);
    snprintf(number, sizeof number, "%d", fd);
    execl(getenv("READER"), "reader", mode, number, (char *)NULL);
    _exit(127);
}

/* The other side of the whole transfer. */
static void other(int fd, const char *mode)
{
    if (strcmp(mode, "writes") == 0) {
        size_t got = read_all(fd, bytes, LENGTH);

        printf("other: %zu bytes, %zu wrong\n", got, differing(bytes, got, 1, 0));
    } else {
        fill(bytes, LENGTH, 1, 0);
        write_all(fd, bytes, LENGTH);
        CHECK(shutdown(fd, SHUT_WR) == 0 && recv(fd, bytes, 1, 0) == 0);
    }
}

static int server(int fd, const char *mode)
{
    pid_t child;
    int status;

    pong(fd);
    if (strcmp(mode, "forks") != 0) {
        other(fd, mode);
        return 0;
    }
    CHECK((child = fork()) >= 0);
    if (child == 0)
        change(fd, mode);
    close(fd);
    CHECK(waitpid(child, &status, 0) == child);
    return status != 0;
}

static int client(int fd, const char *mode)
{
    ping(fd);
    if (strcmp(mode, "forks") == 0)
        other(fd, mode);
    else
        change(fd, mode);
    return 0;
}

/* READER's own main; this file is compiled twice. */
#ifdef READER
int main(int argc, char **argv)
{
    int fd = atoi(argv[argc - 1]);
    size_t length = LENGTH - FIRST;

    if (strcmp(argv[1], "writes") != 0) {
        length = read_all(fd, bytes, LENGTH);
        printf("reader: %zu bytes, %zu wrong\n", length, differing(bytes, length, 1, FIRST));
    } else {
        fill(bytes, length, 1, FIRST);
        write_all(fd, bytes, length);
    }
    (void)server;
    (void)client;
    return 0;
}
#else
int main(int argc, char **argv)
{
    return pair_main(argc, argv, server, client);
}
#endif
