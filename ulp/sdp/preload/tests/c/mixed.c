/* What programs do to a connection that is under way: a peer that is stopped, a number that another takes over or that goes with all others, a connection that is
 * handed on, and descriptors that run out. */
#include "pair.h"
#include <sys/resource.h>

#define LENGTH 3000000
static uint8_t bytes[LENGTH];

/* Fills what the peer, which is stopped, does not read; then it goes on. */
static int stopped(int fd, pid_t child)
{
    uint64_t sum = 0;
    int full = 0;

    CHECK(child > 0);
    kill(child, SIGSTOP);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (int quiet = 0; quiet < 5;) {
        fill(bytes, 10000, 1, sum);
        ssize_t sent = send(fd, bytes, 10000, 0);

        if (sent > 0) {
            sum += (uint64_t)sent;
            quiet = 0;
            continue;
        }
        CHECK(errno == EAGAIN);
        full = 1;
        quiet++;
        usleep(30000);
    }
    kill(child, SIGCONT);
    fcntl(fd, F_SETFL, 0);
    printf("full: %d, more than a few bytes: %d\n", full, sum > 30000);
    /* the rest, up to a length that both know */
    while (sum % 1000000 != 0) {
        size_t length = 1000000 - sum % 1000000 < 10000 ? 1000000 - sum % 1000000 : 10000;

        fill(bytes, length, 1, sum);
        write_all(fd, bytes, length);
        sum += length;
    }
    shutdown(fd, SHUT_WR);
    CHECK(recv(fd, bytes, 1, 0) == 0);
    return 0;
}

static size_t read_to_end(int fd, uint64_t *sum)
{
    size_t wrong = 0;
    ssize_t got;

    while ((got = recv(fd, bytes, sizeof bytes, 0)) > 0) {
        wrong += differing(bytes, (size_t)got, 1, *sum);
        *sum += (uint64_t)got;
    }
    return wrong;
}

/* Sends a number to a child that reads the first part, and gives it back. */
static int handed_on(int fd, int is_plain)
{
    int pair[2], status;
    char byte = 1, control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    char number[16];
    pid_t child;

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    fflush(stdout);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(fd);
        close(pair[0]);
        if (is_plain)
            unsetenv("LD_PRELOAD");
        snprintf(number, sizeof number, "%d", pair[1]);
        execl("/proc/self/exe", "heir", "heir", number, "x", (char *)NULL);
        _exit(127);
    }
    close(pair[1]);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    CHECK(sendmsg(pair[0], &message, 0) == 1);
    close(fd);
    CHECK(waitpid(child, &status, 0) == child);
    return status != 0;
}

/* Who gets a number reads what is left of the stream. */
static int heir(int from)
{
    char byte, control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    uint64_t sum = 0;
    int fd;

    CHECK(recvmsg(from, &message, 0) == 1 && CMSG_FIRSTHDR(&message));
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    /* the first part was read by who had it before */
    sum = 100000;
    printf("heir: %zu bytes wrong", read_to_end(fd, &sum));
    printf(", %llu in all\n", (unsigned long long)sum);
    return 0;
}

/* Connections until there are no more descriptors; those that are there work. */
static int limited(int port)
{
    static int all[400];
    struct rlimit limit = {260, 260};
    int count = 0, works = 0;

    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (; count < 400; count++) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};

        if ((all[count] = socket(AF_INET, SOCK_STREAM, 0)) < 0)
            break;
        CHECK(connect(all[count], (struct sockaddr *)&address, sizeof address) == 0);
        /* the first are under way by then */
        for (int turn = 0; turn < 20 && count < 40; turn++)
            CHECK(send(all[count], bytes, 1, 0) == 1 && recv(all[count], bytes, 1, 0) == 1);
    }
    CHECK(count < 400 && errno == EMFILE);
    for (int turn = 0; turn < 20; turn++)
        for (int i = 0; i < count; i++) {
            uint8_t byte = (uint8_t)i, back = 0;

            CHECK(send(all[i], &byte, 1, 0) == 1 && recv(all[i], &back, 1, 0) == 1);
            works += back == byte;
        }
    printf("no more descriptors: %d, exchanges that failed: %d\n", count > 150, count * 20 - works);
    return 0;
}

/* Echoes all connections until their client is gone. */
static void echo_all(int listening, pid_t child)
{
    static struct pollfd polled[600];
    int count = 1, status;

    polled[0] = (struct pollfd){.fd = listening, .events = POLLIN};
    while (waitpid(child, &status, WNOHANG) == 0) {
        CHECK(poll(polled, (nfds_t)count, 100) >= 0);
        if (polled[0].revents & POLLIN)
            polled[count++] = (struct pollfd){.fd = accept(listening, NULL, NULL), .events = POLLIN};
        for (int i = 1; i < count; i++)
            if (polled[i].revents) {
                ssize_t got = recv(polled[i].fd, bytes, 100, MSG_DONTWAIT);

                if (got > 0)
                    write_all(polled[i].fd, bytes, (size_t)got);
                else if (got == 0 || errno != EAGAIN)
                    polled[i].fd = -1;
            }
    }
}

static int client(int fd, const char *mode)
{
    uint64_t sum = 0;
    size_t wrong;

    ping(fd);
    if (strcmp(mode, "over") == 0 || strcmp(mode, "range") == 0) {
        CHECK(send(fd, "last", 4, 0) == 4);
        if (mode[0] == 'o') {
            int null = open("/dev/null", O_RDONLY);

            CHECK(dup2(null, fd) == fd && recv(fd, bytes, 1, 0) < 0 && errno == ENOTSOCK);
        } else {
            CHECK(close_range(3, ~0u, 0) == 0 && recv(fd, bytes, 1, 0) < 0 && errno == EBADF);
        }
        printf("client: %s is done\n", mode);
        fflush(stdout);
        pause();
    }
    if (strncmp(mode, "heir", 4) == 0) {
        CHECK(read_all(fd, bytes, 100000) == 100000);
        printf("client: %zu bytes wrong\n", differing(bytes, 100000, 1, 0));
        return handed_on(fd, strcmp(mode, "heir-plain") == 0);
    }
    wrong = read_to_end(fd, &sum);
    printf("client: %zu bytes wrong, whole millions: %d\n", wrong, sum > 0 && sum % 1000000 == 0);
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int port, printed, listening, fd, result = 0;
    pid_t child;

    signal(SIGPIPE, SIG_IGN);
    if (argc == 4)
        return heir(atoi(argv[2]));
    if (argc == 3)
        return strcmp(mode, "limits") == 0 ? limited(atoi(argv[2])) : client(dial(atoi(argv[2])), mode);
    become_plain(argv);
    listening = listener(&port);
    child = start_client(mode, port, &printed);
    if (strcmp(mode, "limits") == 0) {
        echo_all(listening, child);
        ssize_t got = read(printed, bytes, 1000);

        write_all(1, bytes, got > 0 ? (size_t)got : 0);
        return 0;
    }
    CHECK((fd = accept(listening, NULL, NULL)) >= 0);
    pong(fd);
    if (strcmp(mode, "stopped") == 0) {
        result = stopped(fd, child);
    } else if (strncmp(mode, "heir", 4) == 0) {
        fill(bytes, LENGTH, 1, 0);
        write_all(fd, bytes, LENGTH);
        shutdown(fd, SHUT_WR);
        CHECK(recv(fd, bytes, 1, 0) == 0);
    } else {
        size_t got = read_all(fd, bytes, 4);

        printf("server: %zu bytes, then %zd\n", got, recv(fd, bytes + 4, 1, 0));
        fflush(stdout);
        CHECK((got = (size_t)read(printed, bytes, 1000)) < 1000);
        write_all(1, bytes, got);
        kill(child, SIGTERM);
        CHECK(waitpid(child, NULL, 0) == child);
        return 0;
    }
    close(fd);
    return finish(child, printed) | result;
}
