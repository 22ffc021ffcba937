/* A file goes into a connection by sendfile between sends, and out of it by splice into a pipe. */
#include "pair.h"
#include <sys/mman.h>
#include <sys/sendfile.h>

#define LENGTH (10u << 20)
#define PIECE 65536

static uint8_t bytes[LENGTH];

static int server(int fd, const char *mode)
{
    size_t got, wrong, spliced = 0;
    char head[5] = "";
    int ends[2];

    (void)mode;
    pong(fd);
    CHECK(read_all(fd, head, 4) == 4);
    got = read_all(fd, bytes, LENGTH);
    printf("server: %s %zu bytes, %zu wrong\n", head, got, differing(bytes, got, 1, 0));
    CHECK(pipe(ends) == 0);
    for (wrong = 0; spliced < LENGTH;) {
        size_t length = LENGTH - spliced < PIECE ? LENGTH - spliced : PIECE;
        ssize_t now = splice(fd, NULL, ends[1], NULL, length, SPLICE_F_MOVE);

        CHECK(now > 0 && read_all(ends[0], bytes, (size_t)now) == (size_t)now);
        wrong += differing(bytes, (size_t)now, 1, spliced);
        spliced += (size_t)now;
    }
    CHECK(read_all(fd, head, 4) == 4);
    printf("server: %zu bytes by splice, %zu wrong, %s\n", spliced, wrong, head);
    got = read_all(fd, bytes, LENGTH);
    printf("server: %zu bytes out of a pipe, %zu wrong\n", got, differing(bytes, got, 1, 0));
    CHECK(splice(fd, NULL, ends[1], NULL, PIECE, SPLICE_F_NONBLOCK) <= 0);
    printf("server: end %zd\n", splice(fd, NULL, ends[1], NULL, PIECE, 0));
    return 0;
}

static void send_file(int fd, int file)
{
    off_t at = 0;

    while (at < LENGTH)
        CHECK(sendfile(fd, file, &at, LENGTH - (size_t)at) > 0);
}

/* Out of a pipe, piece by piece. */
static void splice_in(int fd)
{
    int ends[2];

    CHECK(pipe(ends) == 0 && splice(ends[0], NULL, fd, NULL, PIECE, SPLICE_F_NONBLOCK) == -1 && errno == EAGAIN);
    for (size_t at = 0; at < LENGTH;) {
        size_t length = LENGTH - at < 32768 ? LENGTH - at : 32768;

        write_all(ends[1], bytes + at, length);
        for (size_t done = 0; done < length;) {
            ssize_t now = splice(ends[0], NULL, fd, NULL, length - done, SPLICE_F_MORE);

            CHECK(now > 0);
            done += (size_t)now;
        }
        at += length;
    }
    CHECK(close(ends[1]) == 0 && splice(ends[0], NULL, fd, NULL, PIECE, 0) == 0);
}

static int client(int fd, const char *mode)
{
    int file = memfd_create("sendfile", MFD_CLOEXEC);

    (void)mode;
    ping(fd);
    fill(bytes, LENGTH, 1, 0);
    write_all(file, bytes, LENGTH);
    CHECK(send(fd, "head", 4, MSG_MORE) == 4);
    send_file(fd, file);
    send_file(fd, file);
    write_all(fd, "tail", 4);
    splice_in(fd);
    return 0;
}

int main(int argc, char **argv)
{
    return pair_main(argc, argv, server, client);
}
