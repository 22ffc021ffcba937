/* One thread that has both ends of a connection, and accepts after it has sent its request: the
 * only one. A connection on which no byte is ever sent. And one that its program has shut down
 * before it is accepted. */
#include "pair.h"

static void rest(int milliseconds)
{
    CHECK(usleep((useconds_t)milliseconds * 1000) == 0);
}

int main(void)
{
    int port, listening = listener(&port), one = dial(port);
    char bytes[8] = "";

    write_all(one, "request", 7);
    rest(100);
    int other = accept(listening, NULL, NULL);
    CHECK(other >= 0 && read_all(other, bytes, 7) == 7);
    printf("%s\n", bytes);
    rest(300);
    write_all(other, "answers", 7);
    CHECK(read_all(one, bytes, 7) == 7);
    printf("%s\n", bytes);
    close(other);
    CHECK(read_all(one, bytes, 7) == 0);
    CHECK(send(dial(port), "", 0, MSG_NOSIGNAL) == 0);
    one = dial(port);
    write_all(one, "all", 3);
    CHECK(shutdown(one, SHUT_WR) == 0);
    rest(100);
    CHECK(accept(listening, NULL, NULL) >= 0);
    other = accept(listening, NULL, NULL);
    CHECK(other >= 0 && read_all(other, bytes, 4) == 3);
    write_all(other, "it is", 5);
    close(other);
    CHECK(read_all(one, bytes, 6) == 5);
    printf("%.5s\n", bytes);
    return 0;
}
