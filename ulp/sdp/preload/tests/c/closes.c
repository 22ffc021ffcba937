/* A number is closed while another thread is in a call on it: the call goes on, and the connection ends with it. */
#include "pair.h"
#include <pthread.h>

#define LENGTH (4u << 20)

static uint8_t bytes[LENGTH];

struct call {
    int fd;
    ssize_t moved;
    char text[5];
};

static void *receives(void *argument)
{
    struct call *call = argument;

    call->moved = recv(call->fd, call->text, 4, 0);
    return NULL;
}

static void *sends(void *argument)
{
    struct call *call = argument;

    call->moved = send(call->fd, bytes, LENGTH, 0);
    return NULL;
}

/* Closes the number amid the call, and gives it to another descriptor. Gives the connection's other
 * number, if it has one. */
static int closes(struct call *call, void *(*does)(void *), int has_other)
{
    int other = open("/dev/null", O_RDWR | O_CLOEXEC), kept = has_other ? dup(call->fd) : -1, none;
    pthread_t thread;

    CHECK(other >= 0 && pthread_create(&thread, NULL, does, call) == 0);
    usleep(100000);
    CHECK(close(call->fd) == 0);
    none = (int)recv(call->fd, bytes, 1, 0);
    printf("closed: %d %s\n", none, strerror(errno));
    CHECK(dup2(other, call->fd) == call->fd);
    CHECK(pthread_join(thread, NULL) == 0);
    return kept;
}

static int server(int fd, const char *mode)
{
    struct call call = {.fd = fd};
    int reads = strncmp(mode, "reads", 5) == 0, has_other = strstr(mode, "-dup") != NULL, kept;
    pthread_t thread;

    if (strcmp(mode, "cancels") == 0) {
        pong(fd);
        pong(fd);
        /* from here on the kernel has it */
        CHECK(fcntl(fd, F_SETOWN, getpid()) == 0);
        for (int i = 0; i < 2; i++) {
            void *result;

            CHECK(pthread_create(&thread, NULL, receives, &call) == 0);
            usleep(50000);
            CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
        }
        printf("cancelled, closed: %d\n", close(fd));
        return 0;
    }
    pong(fd);
    pong(fd);
    if (reads) {
        kept = closes(&call, receives, has_other);
        printf("the call: %zd %s\n", call.moved, call.text);
    } else {
        fill(bytes, LENGTH, 3, 0);
        kept = closes(&call, sends, has_other);
        printf("the call: %zd\n", call.moved);
    }
    if (has_other)
        CHECK(shutdown(kept, SHUT_WR) == 0 && close(kept) == 0);
    return 0;
}

static int client(int fd, const char *mode)
{
    size_t got;

    ping(fd);
    usleep(20000);
    ping(fd);
    usleep(400000);
    if (strncmp(mode, "reads", 5) == 0)
        CHECK(send(fd, "late", 4, MSG_NOSIGNAL) == 4);
    got = read_all(fd, bytes, LENGTH);
    printf("client: %zu bytes, %zu wrong, then the end\n", got, differing(bytes, got, 3, 0));
    return 0;
}

int main(int argc, char **argv)
{
    return pair_main(argc, argv, server, client);
}
