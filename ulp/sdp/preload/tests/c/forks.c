/* A server that forks for each connection; then one connection that parent and child read in turn. */
#include "pair.h"

#define CONNECTIONS 3
#define PIECE 50000

static uint8_t bytes[PIECE];

static void serve(int fd)
{
    ssize_t got;
    size_t sum = 0;

    pong(fd);
    while ((got = recv(fd, bytes, sizeof bytes, 0)) > 0) {
        sum += (size_t)got;
        write_all(fd, bytes, (size_t)got);
    }
    _exit(sum == PIECE ? 0 : 1);
}

static int client(int port)
{
    size_t wrong = 0;
    int fd;

    for (int i = 0; i < CONNECTIONS; i++) {
        fd = dial(port);
        ping(fd);
        fill(bytes, PIECE, 1, 0);
        write_all(fd, bytes, PIECE);
        CHECK(read_all(fd, bytes, PIECE) == PIECE);
        wrong += differing(bytes, PIECE, 1, 0);
        close(fd);
    }
    fd = dial(port);
    ping(fd);
    for (int i = 0; i < 4; i++) {
        fill(bytes, PIECE, 2, (uint64_t)i * PIECE);
        write_all(fd, bytes, PIECE);
        CHECK(recv(fd, bytes, 1, 0) == 1);
    }
    close(fd);
    printf("client: %zu wrong\n", wrong);
    return 0;
}

int main(int argc, char **argv)
{
    int port, printed, listening, fd, status, failed = 0;
    pid_t child;

    signal(SIGPIPE, SIG_IGN);
    if (argc == 3)
        return client(atoi(argv[2]));
    become_plain(argv);
    listening = listener(&port);
    child = start_client("", port, &printed);
    for (int i = 0; i < CONNECTIONS; i++) {
        pid_t forked;

        CHECK((fd = accept(listening, NULL, NULL)) >= 0 && (forked = fork()) >= 0);
        if (forked == 0)
            serve(fd);
        close(fd);
        CHECK(waitpid(forked, &status, 0) == forked);
        failed += status != 0;
    }
    CHECK((fd = accept(listening, NULL, NULL)) >= 0);
    pong(fd);
    for (int i = 0; i < 4; i++) {
        pid_t forked = i % 2 ? fork() : 0;
        size_t got = 0;

        CHECK(forked >= 0);
        if (i % 2 == 0 || forked == 0) {
            got = read_all(fd, bytes, PIECE);
            got -= differing(bytes, got, 2, (uint64_t)i * PIECE);
            write_all(fd, "x", 1);
        }
        if (i % 2 && forked == 0)
            _exit(got == PIECE ? 0 : 1);
        if (i % 2) {
            CHECK(waitpid(forked, &status, 0) == forked);
            got = status == 0 ? PIECE : 0;
        }
        printf("server: %s got %zu\n", i % 2 ? "child" : "parent", got);
    }
    printf("server: %d children failed, end %zd\n", failed, recv(fd, bytes, 1, 0));
    return finish(child, printed);
}
