/* The client is killed (SIGKILL): while it writes, while the server writes to it, and while the server sleeps. What the server hears is what TCP tells. */
#include "pair.h"
#include <sys/mman.h>

/* A busy machine may need as long to let the server run. */
#define SOON 1.0

static uint8_t bytes[100000];

static int client(int fd, const char *mode)
{
    ping(fd);
    if (strcmp(mode, "writes") == 0)
        for (uint64_t at = 0;; at += sizeof bytes) {
            fill(bytes, sizeof bytes, 1, at);
            write_all(fd, bytes, sizeof bytes);
        }
    if (strcmp(mode, "reads") == 0)
        while (recv(fd, bytes, sizeof bytes, 0) > 0)
            ;
    pause();
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int port, printed, listening, fd, status;
    uint64_t sum = 0;
    size_t wrong = 0;
    pid_t child, killer;
    ssize_t got;
    double *killed = mmap(NULL, sizeof *killed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), heard;

    CHECK(killed != MAP_FAILED);
    signal(SIGPIPE, SIG_IGN);
    if (argc == 3)
        return client(dial(atoi(argv[2])), mode);
    become_plain(argv);
    listening = listener(&port);
    child = start_client(mode, port, &printed);
    CHECK((fd = accept(listening, NULL, NULL)) >= 0);
    pong(fd);
    killer = fork();
    if (killer == 0) {
        close(fd);
        usleep(100000);
        *killed = seconds();
        _exit(kill(child, SIGKILL));
    }
    if (strcmp(mode, "reads") == 0) {
        while ((got = send(fd, bytes, sizeof bytes, 0)) > 0)
            sum += (uint64_t)got;
        printf("the server's write fails: %d\n", errno == EPIPE || errno == ECONNRESET);
    } else {
        while ((got = recv(fd, bytes, sizeof bytes, 0)) > 0) {
            wrong += differing(bytes, (size_t)got, 1, sum);
            sum += (uint64_t)got;
        }
        printf("the server's read ends: %zd, %zu wrong, something came: %d\n", got, wrong, sum > 0);
    }
    heard = seconds();
    CHECK(waitpid(killer, &status, 0) == killer && status == 0);
    CHECK(waitpid(child, &status, 0) == child);
    printf("killed: %d, heard of soon: %d\n", WIFSIGNALED(status), heard - *killed < SOON);
    return 0;
}
