/* Ends of connections other than by close: reset by SO_LINGER, closed with bytes unread, out-of-band bytes, many short connections. */
#include "pair.h"

static uint8_t bytes[70000];

static void hear(int fd, const char *what)
{
    ssize_t got = recv(fd, bytes, sizeof bytes, 0);
    int error = got < 0 ? errno : 0;

    printf("%s: %zd %s\n", what, got, strerror(error));
    close(fd);
}

static int client(int port)
{
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    int fd = dial(port);

    ping(fd);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0 && close(fd) == 0);
    fd = dial(port);
    ping(fd);
    CHECK(recv(fd, bytes, 1, MSG_PEEK) == 1 && close(fd) == 0);
    fd = dial(port);
    ping(fd);
    CHECK(send(fd, "abc", 3, 0) == 3 && send(fd, "!", 1, MSG_OOB) == 1 && send(fd, "def", 3, 0) == 3);
    ping(fd);
    close(fd);
    for (int i = 0; i < 300; i++) {
        fd = dial(port);
        write_all(fd, &i, sizeof i);
        CHECK(read_all(fd, bytes, sizeof i) == sizeof i && memcmp(bytes, &i, sizeof i) == 0);
        close(fd);
    }
    return 0;
}

static int next(int listening)
{
    int fd = accept(listening, NULL, NULL);

    CHECK(fd >= 0);
    return fd;
}

int main(int argc, char **argv)
{
    int port, printed, listening, fd, sum = 0;
    struct pollfd urgent;
    pid_t child;

    signal(SIGPIPE, SIG_IGN);
    if (argc == 3)
        return client(atoi(argv[2]));
    become_plain(argv);
    listening = listener(&port);
    child = start_client("", port, &printed);
    fd = next(listening);
    pong(fd);
    hear(fd, "after a reset");
    fd = next(listening);
    pong(fd);
    write_all(fd, "unread", 6);
    hear(fd, "closed with bytes unread");
    fd = next(listening);
    pong(fd);
    urgent = (struct pollfd){.fd = fd, .events = POLLPRI};
    CHECK(poll(&urgent, 1, 5000) == 1 && recv(fd, bytes, 1, MSG_OOB) == 1);
    printf("urgent: %c\n", bytes[0]);
    CHECK(read_all(fd, bytes, 6) == 6);
    printf("in line: %.6s\n", bytes);
    pong(fd);
    close(fd);
    for (int i = 0; i < 300; i++) {
        int value;

        fd = next(listening);
        CHECK(read_all(fd, &value, sizeof value) == sizeof value);
        write_all(fd, &value, sizeof value);
        sum += value;
        close(fd);
    }
    printf("short connections: %d\n", sum);
    return finish(child, printed);
}
