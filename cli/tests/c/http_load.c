/* http_load PORT SECONDS KEEP: asks for / again and again, on a connection for KEEP requests, and
 * fails where one request fails. A server may end a connection that it keeps for no request: then
 * the request is made again on another one, as browsers do. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static int connected(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int stream = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(stream, (struct sockaddr *)&address, sizeof address) != 0) {
        perror("connect");
        exit(1);
    }
    return stream;
}

/* What came of a request, of which so many bytes were answered. */
static size_t answered(int stream, const char *request, char *bytes, size_t room)
{
    size_t length = strlen(request), got = 0;
    if (send(stream, request, length, MSG_NOSIGNAL) != (ssize_t)length)
        return 0;
    for (;;) {
        ssize_t more = recv(stream, bytes + got, room - 1 - got, 0);
        if (more <= 0)
            return got ? (size_t)-1 : 0;
        got += more;
        bytes[got] = 0;
        const char *end = strstr(bytes, "\r\n\r\n");
        const char *body = strstr(bytes, "Content-Length: ");
        if (end && body && got >= end + 4 - bytes + strtoul(body + 16, NULL, 10))
            return got;
    }
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    int port = atoi(argv[1]), keep = atoi(argv[3]), stream = -1, used = 0;
    double end = now() + atof(argv[2]);
    char request[128], bytes[65536];
    snprintf(request, sizeof request, "GET / HTTP/1.1\r\nHost: x\r\n%s\r\n",
             keep == 1 ? "Connection: close\r\n" : "");
    long done = 0;
    while (now() < end) {
        if (stream < 0) {
            stream = connected(port);
            used = 0;
        }
        size_t got = answered(stream, request, bytes, sizeof bytes);
        if (got == 0 && used > 0) {
            close(stream);
            stream = -1;
            continue;
        }
        if (got == 0 || got == (size_t)-1 || memcmp(bytes, "HTTP/1.1 200", 12) != 0) {
            fprintf(stderr, "request %ld failed, the %d. of its connection\n", done, used + 1);
            return 1;
        }
        done++;
        if (++used >= keep || strstr(bytes, "Connection: close")) {
            close(stream);
            stream = -1;
        }
    }
    printf("%ld requests\n", done);
    return 0;
}
