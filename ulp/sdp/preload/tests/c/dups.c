/* Several numbers for one connection: dup, dup2 over another socket, F_DUPFD; each may be closed first. */
#include "pair.h"

static void say(int fd, const char *text)
{
    write_all(fd, text, 4);
}

static int server(int fd, const char *mode)
{
    char bytes[5] = "";
    int other = dup(fd), high, over;

    (void)mode;
    CHECK(other >= 0);
    pong(other);
    say(fd, "one.");
    close(fd);
    CHECK(read_all(other, bytes, 4) == 4);
    printf("server: %s\n", bytes);
    over = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(over >= 0 && dup2(other, over) == over);
    close(other);
    say(over, "two.");
    CHECK((high = fcntl(over, F_DUPFD_CLOEXEC, 100)) >= 100 && dup2(over, over) == over);
    CHECK(read_all(high, bytes, 4) == 4);
    printf("server: %s\n", bytes);
    close(over);
    pong(high);
    CHECK(dup3(high, over, O_CLOEXEC) == over && close(high) == 0);
    say(over, "end.");
    CHECK(recv(over, bytes, 1, 0) == 0);
    close(over);
    return 0;
}

static int client(int fd, const char *mode)
{
    char bytes[5] = "";
    int other;

    (void)mode;
    ping(fd);
    CHECK(read_all(fd, bytes, 4) == 4);
    printf("client: %s\n", bytes);
    CHECK((other = dup(fd)) >= 0);
    say(other, "uno.");
    CHECK(read_all(other, bytes, 4) == 4);
    printf("client: %s\n", bytes);
    close(fd);
    say(other, "due.");
    ping(other);
    CHECK(read_all(other, bytes, 4) == 4);
    printf("client: %s\n", bytes);
    close(other);
    return 0;
}

int main(int argc, char **argv)
{
    return pair_main(argc, argv, server, client);
}
