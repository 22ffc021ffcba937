/* Memory that cannot be read or written: EFAULT, and the connection goes on. */
#include "pair.h"
#include <sys/mman.h>
#include <sys/uio.h>

static char *bad[4];
static char *read_only;

static void say(const char *what, ssize_t answer)
{
    printf("%s: %zd %s\n", what, answer, answer < 0 ? strerror(errno) : "");
}

static void make(void)
{
    long page = sysconf(_SC_PAGESIZE);
    int file = memfd_create("faults", MFD_CLOEXEC);
    char *pages = mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *cut;

    CHECK(file >= 0 && ftruncate(file, page) == 0 && pages != MAP_FAILED);
    cut = mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(cut != MAP_FAILED && mprotect(pages + page, (size_t)page, PROT_NONE) == 0);
    bad[0] = NULL;
    bad[1] = (char *)-4096;
    bad[2] = pages + page;
    bad[3] = cut + page;
    read_only = mmap(NULL, (size_t)page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(read_only != MAP_FAILED);
}

static int server(int fd, const char *mode)
{
    int which = mode[0] - '0';

    make();
    pong(fd);
    say("send", send(fd, bad[which], 10, 0));
    pong(fd);
    say("writev", writev(fd, (struct iovec *)bad[which], 1));
    say("sendmsg", sendmsg(fd, (struct msghdr *)bad[which], 0));
    pong(fd);
    close(fd);
    return 0;
}

static int client(int fd, const char *mode)
{
    char byte = 'b';

    (void)mode;
    ping(fd);
    ping(fd);
    ping(fd);
    CHECK(recv(fd, &byte, 1, 0) == 0);
    return 0;
}

/* A receive, of which the bytes are there. */
static int reader(int fd, const char *mode)
{
    char *to, bytes[5] = "";
    struct iovec parts = {.iov_len = 4};

    make();
    to = mode[1] == '4' ? read_only : bad[mode[1] - '0'];
    parts.iov_base = to;
    pong(fd);
    usleep(50000);
    CHECK(recv(fd, bytes, 1, 0) == 1);
    say("recv", recv(fd, to, 4, 0));
    say("readv", readv(fd, &parts, 1));
    CHECK(read_all(fd, bytes, 4) == 4);
    printf("then: %s\n", bytes);
    close(fd);
    return 0;
}

static int writer(int fd, const char *mode)
{
    char byte;

    (void)mode;
    ping(fd);
    write_all(fd, "!then", 5);
    CHECK(recv(fd, &byte, 1, 0) == 0);
    return 0;
}

int main(int argc, char **argv)
{
    int reads = argc > 1 && argv[1][0] == 'r';

    return pair_main(argc, argv, reads ? reader : server, reads ? writer : client);
}
