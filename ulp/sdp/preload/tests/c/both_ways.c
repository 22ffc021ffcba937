/* 64 MiB in both directions at once, with writes and reads of random lengths. */
#include "pair.h"
#include <pthread.h>
#include <sys/uio.h>

#define LENGTH (64u << 20)
#define LONGEST (200 << 10)

struct end {
    int fd;
    uint64_t seed;
};

static void *writer(void *argument)
{
    struct end *end = argument;
    uint8_t *bytes = malloc(LONGEST);
    uint64_t state = end->seed + 11;

    CHECK(bytes);
    for (uint64_t at = 0; at < LENGTH;) {
        size_t length = 1 + draw(&state) % (draw(&state) % 4 ? 3000 : LONGEST);
        struct iovec parts[2];
        ssize_t written;

        length = length > LENGTH - at ? LENGTH - at : length;
        fill(bytes, length, end->seed, at);
        parts[0] = (struct iovec){bytes, length / 3};
        parts[1] = (struct iovec){bytes + length / 3, length - length / 3};
        written = at % 3 ? send(end->fd, bytes, length, 0) : writev(end->fd, parts, 2);
        CHECK(written > 0);
        at += (uint64_t)written;
    }
    CHECK(shutdown(end->fd, SHUT_WR) == 0);
    free(bytes);
    return NULL;
}

static void both(int fd, uint64_t own, uint64_t other, const char *name)
{
    struct end end = {fd, own};
    uint8_t *bytes = malloc(LONGEST);
    uint64_t state = own + 99, at = 0;
    size_t wrong = 0;
    pthread_t thread;

    CHECK(bytes && pthread_create(&thread, NULL, writer, &end) == 0);
    for (;;) {
        size_t length = 1 + draw(&state) % (draw(&state) % 4 ? 2000 : LONGEST);
        ssize_t got = recv(fd, bytes, length, 0);

        CHECK(got >= 0);
        if (got == 0)
            break;
        wrong += differing(bytes, (size_t)got, other, at);
        at += (uint64_t)got;
    }
    pthread_join(thread, NULL);
    printf("%s: %llu bytes, %zu wrong\n", name, (unsigned long long)at, wrong);
    free(bytes);
}

static int server(int fd, const char *mode)
{
    (void)mode;
    both(fd, 1, 2, "server");
    return 0;
}

static int client(int fd, const char *mode)
{
    (void)mode;
    both(fd, 2, 1, "client");
    return 0;
}

int main(int argc, char **argv)
{
    return pair_main(argc, argv, server, client);
}
