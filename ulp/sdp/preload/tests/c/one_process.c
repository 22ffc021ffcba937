/* Both ends of a connection in one process: of one thread, and of two. */
#include "pair.h"
#include <pthread.h>

#define LENGTH (8u << 20)

static uint8_t bytes[65536];

static void *echo(void *argument)
{
    int fd = *(int *)argument;
    static uint8_t own[65536];
    ssize_t got;

    pong(fd);
    while ((got = recv(fd, own, sizeof own, 0)) > 0)
        write_all(fd, own, (size_t)got);
    close(fd);
    return NULL;
}

int main(void)
{
    int port, listening = listener(&port), one = dial(port), other = accept(listening, NULL, NULL);
    size_t wrong = 0;
    pthread_t thread;

    CHECK(other >= 0);
    for (int i = 0; i < ROUNDS; i++) {
        size_t length = 1 + (size_t)i % 3000;

        fill(bytes, length, 5, (uint64_t)i);
        write_all(i % 2 ? one : other, bytes, length);
        memset(bytes, 0, length);
        CHECK(read_all(i % 2 ? other : one, bytes, length) == length);
        wrong += differing(bytes, length, 5, (uint64_t)i);
    }
    printf("one thread: %zu wrong\n", wrong);
    CHECK(pthread_create(&thread, NULL, echo, &other) == 0);
    ping(one);
    for (uint64_t at = 0; at < LENGTH; at += sizeof bytes) {
        fill(bytes, sizeof bytes, 6, at);
        write_all(one, bytes, sizeof bytes);
        CHECK(read_all(one, bytes, sizeof bytes) == sizeof bytes);
        wrong += differing(bytes, sizeof bytes, 6, at);
    }
    CHECK(shutdown(one, SHUT_WR) == 0 && recv(one, bytes, 1, 0) == 0);
    pthread_join(thread, NULL);
    printf("two threads: %zu wrong\n", wrong);
    return 0;
}
