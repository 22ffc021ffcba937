/* The client is killed (SIGKILL): while it writes, while the server writes to it, while the
 * server sleeps, and with bytes unread, also while the server waits for room. Or it ends by
 * itself with bytes unread. What the server hears is what TCP tells. */
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
    if (strcmp(mode, "exits") == 0) {
        usleep(100000);
        _exit(0);
    }
    pause();
    return 0;
}

/* What a send is told: once that the connection was reset, then that it is over, and the same by
 * a signal. */
static volatile sig_atomic_t pipes;

static void on_pipe(int number)
{
    (void)number;
    pipes++;
}

static void say_what_a_send_is_told(int fd)
{
    for (int i = 0; i < 3; i++) {
        ssize_t sent = send(fd, bytes, 10, 0);

        printf("a send: %zd, %s, signals: %d\n", sent, sent < 0 ? strerror(errno) : "none", (int)pipes);
    }
    printf("a read then: %zd\n", recv(fd, bytes, 10, 0));
}

/* The client leaves bytes unread. One that waits for room hears of its end in its send. */
static void leave_unread(int fd, int fills)
{
    struct pollfd ended = {.fd = fd, .events = POLLRDHUP};
    struct sigaction action = {.sa_handler = on_pipe};

    CHECK(sigaction(SIGPIPE, &action, NULL) == 0);
    for (int i = 0; i < 10; i++)
        CHECK(send(fd, bytes, 100, 0) == 100);
    if (fills) {
        while (send(fd, bytes, sizeof bytes, 0) > 0)
            ;
        printf("who waits for room: %s, signals: %d\n", strerror(errno), (int)pipes);
    }
    CHECK(poll(&ended, 1, 5000) == 1);
    /* so that both ways by which an end is heard have been gone */
    usleep(50000);
    say_what_a_send_is_told(fd);
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
        if (strcmp(mode, "exits") == 0)
            _exit(0);
        close(fd);
        usleep(100000);
        *killed = seconds();
        _exit(kill(child, SIGKILL));
    }
    if (strcmp(mode, "unread") == 0 || strcmp(mode, "fills") == 0 || strcmp(mode, "exits") == 0) {
        leave_unread(fd, strcmp(mode, "fills") == 0);
    } else if (strcmp(mode, "reads") == 0) {
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
    printf("killed: %d, heard of soon: %d\n", WIFSIGNALED(status), strcmp(mode, "exits") == 0 || heard - *killed < SOON);
    return 0;
}
