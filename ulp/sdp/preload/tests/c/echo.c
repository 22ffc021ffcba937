/* Messages of many lengths go to a server that sleeps in read, and come back. */
#include "pair.h"

#define MESSAGES 3000
#define LONGEST 20000

static int server(int fd, const char *mode)
{
    static uint8_t bytes[LONGEST];
    size_t sum = 0;
    ssize_t got;

    (void)mode;
    while ((got = read(fd, bytes, sizeof bytes)) > 0) {
        sum += (size_t)got;
        write_all(fd, bytes, (size_t)got);
    }
    CHECK(got == 0);
    printf("server: %zu bytes\n", sum);
    return 0;
}

static int client(int fd, const char *mode)
{
    static uint8_t out[LONGEST], in[LONGEST];
    uint64_t state = 1, at = 0;
    size_t wrong = 0;

    (void)mode;
    for (int i = 0; i < MESSAGES; i++) {
        size_t length = 1 + draw(&state) % (i % 10 == 0 ? LONGEST : 200);

        fill(out, length, 7, at);
        write_all(fd, out, length);
        CHECK(read_all(fd, in, length) == length);
        wrong += differing(in, length, 7, at);
        at += length;
    }
    close(fd);
    printf("client: %llu bytes, %zu wrong\n", (unsigned long long)at, wrong);
    return 0;
}

int main(int argc, char **argv)
{
    return pair_main(argc, argv, server, client);
}
