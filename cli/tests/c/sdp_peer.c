/* A server that echoes, and a client that exchanges and then waits until its input ends:
 *   sdp_peer serve [LISTENER]      prints its port, unless the listener was inherited
 *   sdp_peer meet PORT EXCHANGES   prints a line when it has made them
 *   sdp_peer squat PORT            takes the first name of the port's negotiation, and says nothing
 * The server and the squatter end when their input does. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void check(int fine, const char *what)
{
    if (!fine) {
        perror(what);
        exit(1);
    }
}

static int listener_at(int argc, char **argv)
{
    if (argc > 2)
        return atoi(argv[2]);
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    check(bind(listener, (struct sockaddr *)&address, length) == 0, "bind");
    check(listen(listener, 16) == 0, "listen");
    check(getsockname(listener, (struct sockaddr *)&address, &length) == 0, "getsockname");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

static int serve(int listener)
{
    struct pollfd polled[64] = {{.fd = 0, .events = POLLIN}, {.fd = listener, .events = POLLIN}};
    int count = 2;
    char bytes[4096];
    /* another process that has the listener may accept what this one was told of */
    check(fcntl(listener, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    for (;;) {
        check(poll(polled, count, -1) > 0, "poll");
        if (polled[0].revents)
            return 0;
        if (polled[1].revents && count < 64) {
            polled[count].fd = accept(listener, NULL, NULL);
            check(polled[count].fd >= 0 || errno == EAGAIN, "accept");
            if (polled[count].fd >= 0)
                polled[count++].events = POLLIN;
        }
        for (int at = 2; at < count; at++) {
            if (!polled[at].revents)
                continue;
            ssize_t got = recv(polled[at].fd, bytes, sizeof bytes, 0);
            if (got > 0) {
                check(send(polled[at].fd, bytes, got, MSG_NOSIGNAL) == got, "send");
                continue;
            }
            close(polled[at].fd);
            polled[at--] = polled[--count];
        }
    }
}

static int squat(const char *port)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "ferriband-sdp.%s.0", port);
    int squatter = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    length += offsetof(struct sockaddr_un, sun_path) + 1;
    check(bind(squatter, (struct sockaddr *)&name, length) == 0, "bind");
    check(listen(squatter, 16) == 0, "listen");
    puts("here");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}

static int meet(int port, int exchanges)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int stream = socket(AF_INET, SOCK_STREAM, 0);
    check(connect(stream, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    char byte = 7;
    for (int done = 0; done < exchanges; done++) {
        check(send(stream, &byte, 1, 0) == 1, "send");
        check(recv(stream, &byte, 1, 0) == 1, "recv");
        /* what is agreed beside the stream takes a moment */
        usleep(500);
    }
    puts("met");
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "serve") == 0)
        return serve(listener_at(argc, argv));
    if (argc > 2 && strcmp(argv[1], "squat") == 0)
        return squat(argv[2]);
    if (argc > 3)
        return meet(atoi(argv[2]), atoi(argv[3]));
    return 2;
}
