/* What actors do: each step is one call of the program's, or a few that belong together so that what TCP leaves open cannot be seen. */
#ifndef ACT_H
#define ACT_H
#include "fuzz.h"

/* A side's numbers. */
struct table {
    int numbers[SLOTS];
    int listener;
};

extern struct table tables[TABLES];
extern const char *reader_path;
static __thread volatile int pipes_broken;
static __thread struct command *mine;

static void on_sigpipe(int number)
{
    (void)number;
    pipes_broken = pipes_broken + 1;
}

static bool expects(void)
{
    return shared->patience > 0;
}

/* Whether to look once more for what is expected and may yet come. */
static bool once_more(uint64_t until)
{
    if (!expects() || microseconds() > until)
        return false;
    usleep(50);
    return true;
}

static uint64_t deadline(void)
{
    return microseconds() + shared->patience;
}

static ssize_t through_pipe_out(int number, const uint8_t *bytes, size_t length)
{
    int ends[2];
    ssize_t sent;

    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    /* a pipe takes 64 KiB */
    CHECK(write(ends[1], bytes, length) == (ssize_t)length);
    sent = splice(ends[0], NULL, number, NULL, length, 0);
    for (ssize_t more; sent > 0 && (size_t)sent < length; sent += more)
        if ((more = splice(ends[0], NULL, number, NULL, length - (size_t)sent, 0)) <= 0)
            break;
    int error = errno;
    close(ends[0]);
    close(ends[1]);
    errno = error;
    return sent;
}

/* A file that holds the stream of an end. */
static ssize_t by_file(int number, int end, uint64_t at, size_t length)
{
    static int files[2] = {-1, -1};
    off_t offset = (off_t)(at % PERIOD);

    if (files[end] < 0) {
        files[end] = memfd_create("stream", MFD_CLOEXEC);
        CHECK(files[end] >= 0 && write(files[end], stream[end], sizeof stream[end]) == sizeof stream[end]);
    }
    return sendfile(number, files[end], &offset, length);
}

static ssize_t send_by(int number, int how, const uint8_t *bytes, size_t length, int flags, int end, uint64_t at)
{
    size_t first = length / 3;
    struct iovec parts[3] = {{(void *)bytes, first}, {NULL, 0}, {(void *)(bytes + first), length - first}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};

    switch (how) {
    case WRITE:
        return write(number, bytes, length);
    case WRITEV:
        return writev(number, parts, 3);
    case SENDMSG:
        return sendmsg(number, &message, flags);
    case SENDTO:
        return sendto(number, bytes, length, flags, NULL, 0);
    case SENDFILE:
        return by_file(number, end, at, length);
    case SPLICE_OUT:
        return through_pipe_out(number, bytes, length);
    default:
        return send(number, bytes, length, flags);
    }
}

static void do_send(const struct step *step, int number, int end, struct result *got)
{
    size_t length = (size_t)step->args[1];
    int flags = (step->args[3] & DONTWAIT ? MSG_DONTWAIT : 0) | (step->args[3] & NOSIGNAL ? MSG_NOSIGNAL : 0);
    uint64_t at = shared->sent[end], until = deadline();
    bool fails = expects() && mine->expected.value < 0;
    ssize_t sent;

    pipes_broken = 0;
    do {
        if (step->args[3] & MORE && length > 1) {
            /* what MSG_MORE holds back is let go by what follows at once */
            sent = send_by(number, step->args[2], stream_at(end, at), length / 2, flags | MSG_MORE, end, at);
            if (sent == (ssize_t)(length / 2)) {
                ssize_t rest = send(number, stream_at(end, at + length / 2), length - length / 2, flags);

                sent = rest < 0 ? -1 : sent + rest;
            }
        } else {
            sent = send_by(number, step->args[2], stream_at(end, at), length, flags, end, at);
        }
        got->error = sent < 0 ? errno : 0;
        /* the news of an end comes by itself; what was sent meanwhile reaches nobody */
    } while (fails && sent >= 0 && once_more(until));
    got->value = (int)sent;
    got->more[0] = pipes_broken > 0;
    if (sent > 0 && !fails)
        shared->sent[end] += (uint64_t)sent;
}

static ssize_t through_pipe_in(int number, uint8_t *bytes, size_t length, int flags)
{
    int ends[2];
    ssize_t got, sum = 0;

    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    got = splice(number, NULL, ends[1], NULL, length, flags & MSG_DONTWAIT ? SPLICE_F_NONBLOCK : 0);
    int error = errno;
    while (got > 0 && sum < got) {
        ssize_t more = read(ends[0], bytes + sum, (size_t)(got - sum));

        CHECK(more > 0);
        sum += more;
    }
    close(ends[0]);
    close(ends[1]);
    errno = error;
    return got;
}

static ssize_t receive_by(int number, int how, uint8_t *bytes, size_t length, int flags, struct result *got)
{
    size_t first = length / 3;
    struct iovec parts[3] = {{bytes, first}, {NULL, 0}, {bytes + first, length - first}};
    struct sockaddr_in from;
    char control[64];
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3, .msg_name = &from, .msg_namelen = sizeof from,
                             .msg_control = control, .msg_controllen = sizeof control, .msg_flags = 0x40};
    socklen_t from_length = sizeof from;
    ssize_t answer;

    switch (how) {
    case READ:
        return read(number, bytes, length);
    case READV:
        return readv(number, parts, 3);
    case RECVMSG:
        answer = recvmsg(number, &message, flags);
        if (answer >= 0) {
            got->more[1] = message.msg_flags;
            got->more[2] = (int)message.msg_namelen;
            got->more[3] = (int)message.msg_controllen;
        }
        return answer;
    case RECVFROM:
        answer = recvfrom(number, bytes, length, flags, (struct sockaddr *)&from, &from_length);
        if (answer > 0)
            got->more[2] = (int)from_length;
        return answer;
    case SPLICE_IN:
        return through_pipe_in(number, bytes, length, flags);
    default:
        return recv(number, bytes, length, flags);
    }
}

static int differing(const uint8_t *bytes, size_t length, int end, uint64_t at)
{
    int count = 0;

    for (size_t i = 0; i < length;) {
        size_t piece = length - i < LONGEST / 2 ? length - i : LONGEST / 2;
        const uint8_t *right = stream_at(end, at + i);

        if (memcmp(bytes + i, right, piece) != 0)
            for (size_t j = 0; j < piece; j++)
                count += bytes[i + j] != right[j];
        i += piece;
    }
    return count;
}

static void do_recv(const struct step *step, int number, int end, struct result *got)
{
    static __thread uint8_t bytes[1 << 20];
    size_t length = (size_t)step->args[1], wanted = length, sum = 0;
    bool peeks = step->args[3] & PEEK;
    int flags = (step->args[3] & DONTWAIT ? MSG_DONTWAIT : 0) | (peeks ? MSG_PEEK : 0) | (step->args[3] & WAITALL ? MSG_WAITALL : 0);
    uint64_t until = microseconds() + (mine->expected.value > 0 ? BYTES_PATIENCE : shared->patience);
    ssize_t answer;

    CHECK(length <= sizeof bytes);
    for (;;) {
        answer = receive_by(number, step->args[2], bytes + sum, wanted - sum, flags, got);
        got->error = answer < 0 ? errno : 0;
        if (answer > 0)
            sum = peeks ? (size_t)answer : sum + (size_t)answer;
        if (!expects() || (answer < 0 && got->error != EAGAIN))
            break;
        /* a receive may end where what carries the bytes changes: the rest is asked for, and no more than that */
        if (mine->expected.value > 0 && (size_t)mine->expected.value <= length) {
            wanted = (size_t)mine->expected.value;
            if (sum >= wanted || answer == 0)
                break;
            flags |= MSG_DONTWAIT;
            if (peeks)
                sum = 0;
        } else if (answer >= 0 || (mine->expected.value < 0 && mine->expected.error == EAGAIN)) {
            break;
        }
        if (answer < 0 && !once_more(until))
            break;
    }
    if (sum > 0) {
        got->value = (int)sum;
        got->error = 0;
        got->more[0] = differing(bytes, sum, 1 - end, shared->received[end]);
        if (!peeks)
            shared->received[end] += sum;
    } else {
        got->value = (int)answer;
    }
}

/* Sends until nothing more is taken, which happens at another byte in each run. */
static void do_fill(int number, int end, struct result *got)
{
    shared->filled = true;
    for (int quiet = 0; quiet < 3;) {
        ssize_t sent = send(number, stream_at(end, shared->sent[end]), 16384, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (sent > 0) {
            shared->sent[end] += (uint64_t)sent;
            quiet = 0;
        } else {
            got->value = (int)sent;
            got->error = errno;
            quiet++;
            usleep(errno == EAGAIN ? 1000 : 0);
        }
    }
}

/* Receives all that the other end has sent. */
static void do_drain(int number, int end, struct result *got)
{
    static __thread uint8_t bytes[LONGEST / 2];
    uint64_t until = microseconds() + BYTES_PATIENCE;

    while (shared->received[end] < shared->sent[1 - end] && microseconds() < until) {
        uint64_t left = shared->sent[1 - end] - shared->received[end];
        ssize_t answer = recv(number, bytes, left < sizeof bytes ? left : sizeof bytes, MSG_DONTWAIT);

        if (answer > 0) {
            got->more[0] += differing(bytes, (size_t)answer, 1 - end, shared->received[end]);
            shared->received[end] += (uint64_t)answer;
        } else if (answer == 0 || errno != EAGAIN) {
            got->error = answer < 0 ? errno : 0;
            break;
        } else {
            usleep(100);
        }
    }
    got->value = shared->received[end] == shared->sent[1 - end];
}

static void do_dup(const struct step *step, struct table *table, int number, struct result *got)
{
    int *to = &table->numbers[step->args[1]], made;

    if (*to < 0 && step->args[2] >= 2)
        CHECK((*to = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
    switch (step->args[2]) {
    case 0:
        made = dup(number);
        break;
    case 1:
        made = fcntl(number, F_DUPFD_CLOEXEC, 3);
        break;
    case 2:
        made = dup2(number, *to);
        break;
    default:
        made = dup3(number, *to, O_CLOEXEC);
    }
    got->value = made < 0 ? -1 : 0;
    got->error = made < 0 ? errno : 0;
    if (made >= 0)
        *to = made;
}

/* A number sent to itself. */
static void do_scm(const struct step *step, struct table *table, int number, struct result *got)
{
    int pair[2];
    char byte = 1, control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &number, sizeof number);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    got->value = (int)sendmsg(pair[0], &message, 0);
    got->error = got->value < 0 ? errno : 0;
    if (got->value == 1) {
        CHECK(recvmsg(pair[1], &message, MSG_CMSG_CLOEXEC) == 1);
        memcpy(&table->numbers[step->args[1]], CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
    }
    close(pair[0]);
    close(pair[1]);
}

static void do_option(const struct step *step, int number, struct result *got)
{
    static const struct {
        int level, name;
    } options[OPTIONS] = {
        [NODELAY] = {IPPROTO_TCP, TCP_NODELAY}, [CORK] = {IPPROTO_TCP, TCP_CORK},      [LOWAT] = {SOL_SOCKET, SO_RCVLOWAT},
        [RCVTIMEO] = {SOL_SOCKET, SO_RCVTIMEO}, [SNDTIMEO] = {SOL_SOCKET, SO_SNDTIMEO}, [LINGER] = {SOL_SOCKET, SO_LINGER},
        [RCVBUF] = {SOL_SOCKET, SO_RCVBUF},     [SNDBUF] = {SOL_SOCKET, SO_SNDBUF},     [KEEPALIVE] = {SOL_SOCKET, SO_KEEPALIVE},
        [ERROR] = {SOL_SOCKET, SO_ERROR},       [TYPE] = {SOL_SOCKET, SO_TYPE},         [STATE] = {IPPROTO_TCP, TCP_INFO},
    };
    int which = step->args[1], word[64] = {0};
    int level = options[which].level, name = options[which].name;
    struct timeval time = {step->args[2] / 1000, step->args[2] % 1000 * 1000};
    struct linger linger = {step->args[2] >= 0, step->args[2] > 0 ? step->args[2] : 0};
    socklen_t length = sizeof word;
    uint64_t until = deadline();

    if (step->op == OP_setopt) {
        if (which == RCVTIMEO || which == SNDTIMEO)
            got->value = setsockopt(number, level, name, &time, sizeof time);
        else if (which == LINGER)
            got->value = setsockopt(number, level, name, &linger, sizeof linger);
        else
            got->value = setsockopt(number, level, name, &step->args[2], sizeof(int));
        got->error = got->value < 0 ? errno : 0;
        return;
    }
    if (which == NAMES) {
        struct sockaddr_in name_, peer;
        socklen_t lengths[2] = {sizeof name_, sizeof peer};

        do {
            got->value = getsockname(number, (struct sockaddr *)&name_, &lengths[0]);
            got->more[0] = getpeername(number, (struct sockaddr *)&peer, &lengths[1]) < 0 ? errno : (int)lengths[1];
        } while (memcmp(got, &mine->expected, sizeof *got) != 0 && once_more(until));
        return;
    }
    do {
        length = sizeof word;
        got->value = getsockopt(number, level, name, word, &length);
        got->error = got->value < 0 ? errno : 0;
        got->more[0] = word[0];
        /* of TCP_INFO whether this side may send: what the peer's kernel has acknowledged depends on time */
        if (which == STATE)
            got->more[0] = (uint8_t)word[0] == TCP_ESTABLISHED || (uint8_t)word[0] == TCP_CLOSE_WAIT;
        /* the kernel makes buffers longer where much goes by TCP */
        if (which == RCVBUF || which == SNDBUF)
            got->more[0] = 0;
        got->more[1] = which == STATE ? 0 : (int)length;
        got->more[2] = which == RCVTIMEO || which == SNDTIMEO ? word[2] : which == LINGER ? word[1] : 0;
    } while (memcmp(got, &mine->expected, sizeof *got) != 0 && (which == ERROR || which == STATE) && once_more(until));
}

static void do_ioctl(const struct step *step, int number, struct result *got)
{
    uint64_t until = deadline();
    int count = 0;

    do {
        got->value = ioctl(number, step->args[1] ? TIOCOUTQ : FIONREAD, &count);
        got->error = got->value < 0 ? errno : 0;
        /* what TCP has not heard an acknowledgement of depends on time */
        got->more[0] = step->args[1] ? count >= 0 : count;
    } while (memcmp(got, &mine->expected, sizeof *got) != 0 && once_more(until));
}

/* An epoll instance that poll or select finds ready, and in which nothing is: a look in vain, after which it is not found again. */
static void forgive_instances(struct result *got)
{
    for (int slot = SOCKETS; slot < SLOTS && expects(); slot++)
        if (got->more[slot] != 0 && mine->expected.more[slot] == 0) {
            got->more[slot] = 0;
            got->value -= got->value > 0;
            shared->edges++;
        }
}

static void do_poll(const struct step *step, struct table *table, struct result *got)
{
    struct pollfd polled[SLOTS];
    int count = 0, slots[SLOTS];
    uint64_t until = deadline();
    int time = step->args[2];

    for (int slot = 0; slot < SLOTS; slot++)
        if (step->args[0] >> slot & 1) {
            slots[count] = slot;
            polled[count++] = (struct pollfd){.fd = table->numbers[slot], .events = (short)step->args[1]};
        }
    do {
        struct timespec spec = {time / 1000, time % 1000 * 1000000L};

        memset(got, 0, sizeof *got);
        got->value = step->args[3] ? ppoll(polled, (nfds_t)count, &spec, NULL) : poll(polled, (nfds_t)count, time);
        got->error = got->value < 0 ? errno : 0;
        for (int i = 0; i < count; i++)
            got->more[slots[i]] = polled[i].revents;
        forgive_instances(got);
        time = 0;
    } while (memcmp(got, &mine->expected, sizeof *got) != 0 && once_more(until));
}

static void do_select(const struct step *step, struct table *table, struct result *got)
{
    uint64_t until = deadline();
    int time = step->args[2];

    do {
        fd_set sets[3];
        int end = 0;
        struct timeval left = {time / 1000, time % 1000 * 1000};
        struct timespec spec = {time / 1000, time % 1000 * 1000000L};

        for (int which = 0; which < 3; which++) {
            FD_ZERO(&sets[which]);
            for (int slot = 0; slot < SLOTS; slot++)
                if (step->args[0] >> slot & 1 && step->args[1] >> which & 1 && table->numbers[slot] >= 0) {
                    FD_SET(table->numbers[slot], &sets[which]);
                    end = table->numbers[slot] >= end ? table->numbers[slot] + 1 : end;
                }
        }
        memset(got, 0, sizeof *got);
        got->value = step->args[3] ? pselect(end, &sets[0], &sets[1], &sets[2], &spec, NULL) : select(end, &sets[0], &sets[1], &sets[2], &left);
        got->error = got->value < 0 ? errno : 0;
        for (int slot = 0; slot < SLOTS && got->value >= 0; slot++)
            for (int which = 0; which < 3 && step->args[0] >> slot & 1; which++)
                if (table->numbers[slot] >= 0 && FD_ISSET(table->numbers[slot], &sets[which]))
                    got->more[slot] |= 1 << which;
        forgive_instances(got);
        time = 0;
    } while (memcmp(got, &mine->expected, sizeof *got) != 0 && once_more(until));
}

static void do_ctl(const struct step *step, struct table *table, int actor, struct result *got)
{
    int slot = step->args[2];
    struct epoll_event event = {.events = (uint32_t)step->args[3], .data.u32 = (uint32_t)slot};

    got->value = epoll_ctl(table->numbers[step->args[0]], step->args[1], table->numbers[slot], &event);
    got->error = got->value < 0 ? errno : 0;
    if (got->value == 0)
        shared->registered[table_of(actor)][step->args[0] - SOCKETS][slot] = step->args[1] == EPOLL_CTL_DEL ? 0 : event.events;
    if (got->value == 0)
        shared->untold[table_of(actor)][step->args[0] - SOCKETS][slot] = true;
}

/* What is told level-triggered is what the last look has found; edges are added up until those that are expected have come. */
static void do_wait(const struct step *step, struct table *table, int actor, struct result *got)
{
    uint32_t *registered = shared->registered[table_of(actor)][step->args[0] - SOCKETS];
    bool *untold = shared->untold[table_of(actor)][step->args[0] - SOCKETS];
    int time = step->args[2], edges[SLOTS] = {0}, levels[SLOTS];
    uint64_t until = deadline();
    bool lacks;

    do {
        struct epoll_event events[16];
        struct timespec spec = {time / 1000, time % 1000 * 1000000L};
        int number = table->numbers[step->args[0]], count;

        memset(levels, 0, sizeof levels);
        switch (step->args[3]) {
        case 1:
            count = epoll_pwait(number, events, step->args[1], time, NULL);
            break;
        case 2:
            count = epoll_pwait2(number, events, step->args[1], &spec, NULL);
            break;
        default:
            count = epoll_wait(number, events, step->args[1], time);
        }
        got->error = count < 0 ? errno : 0;
        got->value = count < 0 ? -1 : 0;
        for (int i = 0; i < count; i++) {
            uint32_t slot = events[i].data.u32;

            if (slot >= SLOTS)
                got->value = 1000;
            else if (registered[slot] & (EPOLLET | EPOLLONESHOT))
                edges[slot] |= (int)events[i].events;
            else
                levels[slot] |= (int)events[i].events;
        }
        time = 0;
        lacks = false;
        for (int slot = 0; slot < SLOTS; slot++) {
            got->more[slot] = edges[slot] | levels[slot];
            if (!expects())
                continue;
            /* bytes that came and were read by somebody else leave an edge of the room that there was before: nothing new */
            if (registered[slot] & EPOLLET && mine->expected.more[slot] == EPOLLOUT && !untold[slot] && !shared->filled)
                continue;
            if (registered[slot] & (EPOLLET | EPOLLONESHOT))
                lacks |= (mine->expected.more[slot] & ~edges[slot]) != 0;
            else if (slot < SOCKETS)
                lacks |= mine->expected.more[slot] != levels[slot];
            else
                lacks |= (mine->expected.more[slot] & ~levels[slot]) != 0;
        }
    } while (got->value == 0 && lacks && once_more(until));
    /* an edge more than TCP has is a look in vain */
    for (int slot = 0; slot < SLOTS && expects(); slot++)
        if (registered[slot] & EPOLLET && mine->expected.more[slot] == EPOLLOUT && got->more[slot] == 0 && !untold[slot] && !shared->filled) {
            got->more[slot] = EPOLLOUT;
        } else if (registered[slot] & EPOLLET && !(registered[slot] & EPOLLONESHOT) && got->more[slot] != mine->expected.more[slot] && (mine->expected.more[slot] & ~got->more[slot]) == 0) {
            shared->edges++;
            got->more[slot] = mine->expected.more[slot];
        }
    /* the news of an end comes by itself: of what is disabled after one report it may come with
     * the next, as between two hosts */
    for (int slot = 0; slot < SLOTS && expects(); slot++)
        if (registered[slot] & EPOLLONESHOT && got->more[slot] != 0 && (mine->expected.more[slot] & ~got->more[slot] & ~(EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == 0)
            got->more[slot] |= mine->expected.more[slot];
    forgive_instances(got);
    for (int slot = 0; slot < SLOTS; slot++)
        if (got->more[slot] & EPOLLOUT)
            untold[slot] = false;
}

/* A program without the library reads or writes some of the stream, and answers with its status. */
static void do_exec(const struct step *step, int number, int end, struct result *got)
{
    char words[4][24];
    int status, reads = step->args[1] == 0;
    pid_t child;

    snprintf(words[0], sizeof words[0], "%d", number);
    snprintf(words[1], sizeof words[1], "%d", reads ? 1 - end : end);
    snprintf(words[2], sizeof words[2], "%llu", (unsigned long long)(reads ? shared->received[end] : shared->sent[end]));
    snprintf(words[3], sizeof words[3], "%d", step->args[2]);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        fcntl(number, F_SETFD, 0);
        execl(reader_path, "static", reads ? "reads" : "writes", words[0], words[1], words[2], words[3], (char *)NULL);
        _exit(99);
    }
    CHECK(waitpid(child, &status, 0) == child);
    got->value = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (got->value == 0 && reads)
        shared->received[end] += (uint64_t)step->args[2];
    else if (got->value == 0)
        shared->sent[end] += (uint64_t)step->args[2];
}
#endif
