/* Two threads and a forked child of each side send and receive on one connection, all at once, by calls that a seed draws. The law is TCP's: what was sent is the
 * stream, each byte once, those of one sender in their order; whoever can go on does. */
#include "pair.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/uio.h>

enum { THREADS = 2, SENDERS = THREADS + 1, EACH = 300000, LONGEST = 40000 };

/* What both processes of a side count. */
struct counts {
    _Atomic uint64_t received[SENDERS];
    _Atomic uint32_t wrong, senders;
};

static struct counts *counts;

struct work {
    int fd, sender;
    uint64_t state;
};

static ssize_t send_somehow(int fd, const uint8_t *from, size_t length, uint64_t how)
{
    struct iovec parts[2] = {{(void *)from, length / 2}, {(void *)(from + length / 2), length - length / 2}};

    switch (how % 4) {
    case 0:
        return write(fd, from, length);
    case 1:
        return writev(fd, parts, 2);
    case 2:
        return send(fd, from, length, MSG_DONTWAIT);
    default:
        return send(fd, from, length, MSG_NOSIGNAL);
    }
}

/* A byte says who has sent it, and how many he had sent before, modulo 64. */
static void *sends(void *at)
{
    struct work *work = at;
    uint8_t *from = malloc(LONGEST);
    uint64_t sent = 0;

    CHECK(from);
    while (sent < EACH) {
        size_t length = 1 + draw(&work->state) % (draw(&work->state) % 4 == 0 ? LONGEST : 600);
        ssize_t moved;

        length = length < EACH - sent ? length : EACH - sent;
        for (size_t i = 0; i < length; i++)
            from[i] = (uint8_t)(work->sender << 6 | (sent + i) % 64);
        moved = send_somehow(work->fd, from, length, draw(&work->state));
        if (moved < 0) {
            struct pollfd polled = {.fd = work->fd, .events = POLLOUT};

            CHECK(errno == EAGAIN && poll(&polled, 1, -1) == 1);
        }
        sent += moved > 0 ? (uint64_t)moved : 0;
    }
    free(from);
    /* the last one ends the stream */
    if (atomic_fetch_sub(&counts->senders, 1) == 1)
        CHECK(shutdown(work->fd, SHUT_WR) == 0);
    return NULL;
}

static ssize_t receive_somehow(int fd, uint8_t *to, size_t length, uint64_t how)
{
    struct iovec parts[2] = {{to, length / 2}, {to + length / 2, length - length / 2}};
    struct pollfd polled = {.fd = fd, .events = POLLIN};

    switch (how % 5) {
    case 0:
        return read(fd, to, length);
    case 1:
        return readv(fd, parts, 2);
    case 2:
        return recv(fd, to, length % 3000 + 1, 0);
    case 3:
        CHECK(poll(&polled, 1, -1) == 1);
        return recv(fd, to, length, MSG_DONTWAIT);
    default:
        return recv(fd, to, length, 0);
    }
}

static void *receives(void *at)
{
    struct work *work = at;
    uint8_t *to = malloc(LONGEST);

    CHECK(to);
    for (;;) {
        size_t length = 2 + draw(&work->state) % (draw(&work->state) % 3 == 0 ? LONGEST - 2 : 900);
        ssize_t got = receive_somehow(work->fd, to, length, draw(&work->state));
        int last[4] = {-1, -1, -1, -1};

        if (got == 0)
            break;
        if (got < 0) {
            CHECK(errno == EAGAIN);
            continue;
        }
        for (ssize_t i = 0; i < got; i++) {
            int sender = to[i] >> 6, number = to[i] & 63;

            if (sender >= SENDERS || (last[sender] >= 0 && number != (last[sender] + 1) % 64)) {
                counts->wrong++;
                continue;
            }
            last[sender] = number;
            counts->received[sender]++;
        }
    }
    free(to);
    return NULL;
}

/* So many threads of each kind, of which the first sends as `sender`. */
static void work_at_once(int fd, int threads, int sender, uint64_t seed)
{
    pthread_t all[2 * THREADS];
    struct work works[2 * THREADS];

    for (int i = 0; i < 2 * threads; i++) {
        works[i] = (struct work){fd, sender + i / 2, seed * 77 + (uint64_t)(i + sender * 8) + 1};
        CHECK(pthread_create(&all[i], NULL, i % 2 ? sends : receives, &works[i]) == 0);
    }
    for (int i = 0; i < 2 * threads; i++)
        CHECK(pthread_join(all[i], NULL) == 0);
}

static int side_of(int fd, const char *mode, const char *name)
{
    uint64_t seed = strtoull(mode, NULL, 10) * 2 + (name[0] == 's');
    int status;
    pid_t child;

    fflush(stdout);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        work_at_once(fd, 1, THREADS, seed);
        _exit(0);
    }
    work_at_once(fd, THREADS, 0, seed);
    CHECK(waitpid(child, &status, 0) == child);
    printf("%s: child %d, wrong %u", name, status, counts->wrong);
    for (int sender = 0; sender < SENDERS; sender++)
        printf(", %llu", (unsigned long long)counts->received[sender]);
    printf("\n");
    close(fd);
    return 0;
}

static int server(int fd, const char *mode)
{
    counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(counts != MAP_FAILED);
    counts->senders = SENDERS;
    pong(fd);
    return side_of(fd, mode, "server");
}

static int client(int fd, const char *mode)
{
    counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(counts != MAP_FAILED);
    counts->senders = SENDERS;
    ping(fd);
    return side_of(fd, mode, "client");
}

int main(int argc, char **argv)
{
    return pair_main(argc, argv, server, client);
}
