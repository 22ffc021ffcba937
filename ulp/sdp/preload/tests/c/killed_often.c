/* Clients are killed (SIGKILL) at any moment of a transfer in both directions: what the server has read is the beginning of what they sent, it hears of each end,
 * and keeps no descriptor of any. */
#include "pair.h"
#include <dirent.h>
#include <pthread.h>

#define ROUNDS_OF_KILLS 24
/* A busy machine may need as long to let the server run. */
#define SOON 1.0

static uint8_t bytes[30000], sent[30000];

static void warm(int fd, int is_client)
{
    uint8_t byte = 0;

    for (int i = 0; i < 60; i++) {
        if (is_client)
            CHECK(send(fd, &byte, 1, 0) == 1);
        CHECK(recv(fd, &byte, 1, 0) == 1);
        if (!is_client)
            CHECK(send(fd, &byte, 1, 0) == 1);
        usleep(50);
    }
}

/* Both ways as fast as it goes, until the other end is gone. Gives what was read, of which `wrong` bytes are not the stream's. */
static uint64_t transfer(int fd, uint64_t mine, uint64_t theirs, size_t *wrong)
{
    uint64_t out = 0, in = 0;

    for (;;) {
        struct pollfd polled = {.fd = fd, .events = POLLIN | POLLOUT};
        ssize_t moved;

        CHECK(poll(&polled, 1, 20000) == 1);
        if (polled.revents & POLLOUT) {
            size_t length = 1 + (size_t)(out * 7919 % sizeof sent);

            fill(sent, length, mine, out);
            moved = send(fd, sent, length, MSG_DONTWAIT);
            out += moved > 0 ? (uint64_t)moved : 0;
        }
        if (polled.revents & (POLLIN | POLLHUP | POLLERR | POLLRDHUP)) {
            moved = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
            if (moved == 0 || (moved < 0 && errno != EAGAIN))
                return in;
            *wrong += moved > 0 ? differing(bytes, (size_t)moved, theirs, in) : 0;
            in += moved > 0 ? (uint64_t)moved : 0;
        }
    }
}

static int client(int fd, const char *mode)
{
    size_t wrong = 0;

    (void)mode;
    warm(fd, 1);
    transfer(fd, 1, 2, &wrong);
    return 0;
}

static int descriptors(void)
{
    DIR *all = opendir("/proc/self/fd");
    int count = 0;

    CHECK(all);
    while (readdir(all))
        count++;
    closedir(all);
    return count;
}

struct killing {
    pid_t child;
    useconds_t after;
    double when;
};

static void *kills(void *at)
{
    struct killing *killing = at;

    usleep(killing->after);
    killing->when = seconds();
    CHECK(kill(killing->child, SIGKILL) == 0);
    return NULL;
}

int main(int argc, char **argv)
{
    int port, printed, listening, status, late = 0, killed = 0, first = 0, kept;
    size_t wrong = 0;
    uint64_t state = 88172645463325252u;
    double worst = 0;

    signal(SIGPIPE, SIG_IGN);
    if (argc == 3)
        return client(dial(atoi(argv[2])), argv[1]);
    become_plain(argv);
    listening = listener(&port);
    for (int round = 0; round < ROUNDS_OF_KILLS; round++) {
        struct killing killing = {.after = (useconds_t)(draw(&state) % 4000)};
        pthread_t killer;
        double heard;
        int fd;

        killing.child = start_client("", port, &printed);
        CHECK((fd = accept(listening, NULL, NULL)) >= 0);
        warm(fd, 0);
        CHECK(pthread_create(&killer, NULL, kills, &killing) == 0);
        transfer(fd, 2, 1, &wrong);
        heard = seconds();
        CHECK(pthread_join(killer, NULL) == 0);
        CHECK(waitpid(killing.child, &status, 0) == killing.child);
        killed += WIFSIGNALED(status);
        late += heard - killing.when > SOON;
        worst = heard - killing.when > worst ? heard - killing.when : worst;
        close(fd);
        close(printed);
        if (round == 3)
            first = descriptors();
    }
    /* what the library has kept of the dead it lets go of by itself */
    for (int tries = 0; (kept = descriptors() - first) > 2 && tries < 200; tries++)
        usleep(10000);
    if (getenv("PAIR_TIMES"))
        fprintf(stderr, "heard after %.1f ms at the most\n", worst * 1e3);
    printf("%d killed, %zu bytes wrong, %d heard of late, descriptors kept: %d\n", killed, wrong, late, kept > 2);
    return 0;
}
