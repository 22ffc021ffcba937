/* A static program that reads or writes so many bytes of a stream of fuzz.h's at a place, on a number that it has inherited: 0 if they were right. */
#include "fuzz.h"

uint8_t stream[2][PERIOD + LONGEST];

int main(int argc, char **argv)
{
    int number, end;
    uint64_t at;
    size_t left;
    static uint8_t bytes[LONGEST];

    if (argc != 6)
        return 90;
    number = atoi(argv[2]);
    end = atoi(argv[3]);
    at = strtoull(argv[4], NULL, 10);
    left = (size_t)atoi(argv[5]);
    make_streams();
    while (left > 0) {
        struct pollfd polled = {.fd = number, .events = argv[1][0] == 'r' ? POLLIN : POLLOUT};
        ssize_t moved;

        if (poll(&polled, 1, BYTES_PATIENCE / 1000) != 1)
            return 1;
        moved = argv[1][0] == 'r' ? recv(number, bytes, left, MSG_DONTWAIT) : send(number, stream_at(end, at), left, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (moved == 0)
            return 2;
        if (moved < 0 && errno != EAGAIN)
            return 3;
        if (moved < 0)
            continue;
        if (argv[1][0] == 'r' && memcmp(bytes, stream_at(end, at), (size_t)moved) != 0)
            return 4;
        at += (uint64_t)moved;
        left -= (size_t)moved;
    }
    return 0;
}
