/* One side ends its stream and reads on; what the other hears of that, and what writing to a closed connection gives. */
#include "pair.h"

#define LENGTH (1 << 20)

static uint8_t bytes[LENGTH];

static int server(int fd, const char *mode)
{
    struct pollfd seen = {.fd = fd, .events = POLLRDHUP};
    size_t got;

    (void)mode;
    pong(fd);
    got = read_all(fd, bytes, LENGTH);
    printf("server: %zu bytes, %zu wrong\n", got, differing(bytes, got, 1, 0));
    CHECK(poll(&seen, 1, 5000) == 1);
    printf("server: end %zd, RDHUP %d\n", recv(fd, bytes, 1, 0), (seen.revents & POLLRDHUP) != 0);
    fill(bytes, LENGTH, 2, 0);
    write_all(fd, bytes, LENGTH);
    close(fd);
    return 0;
}

static int client(int fd, const char *mode)
{
    size_t got;
    ssize_t last;

    (void)mode;
    ping(fd);
    fill(bytes, LENGTH, 1, 0);
    write_all(fd, bytes, LENGTH);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    last = send(fd, bytes, 1, 0);
    printf("client: after shutdown send %zd %s\n", last, strerror(errno));
    got = read_all(fd, bytes, LENGTH);
    printf("client: %zu bytes, %zu wrong\n", got, differing(bytes, got, 2, 0));
    last = recv(fd, bytes, 1, 0);
    printf("client: end %zd, again %zd\n", last, recv(fd, bytes, 1, MSG_DONTWAIT));
    close(fd);
    return 0;
}

int main(int argc, char **argv)
{
    return pair_main(argc, argv, server, client);
}
