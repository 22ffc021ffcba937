/* The latency test of papers/002, Fig. 2: both sides begin a read, write, blocking, and wait for
 * the read, blocking; the slave begins with a read and waits once less. One buffer each way.
 *
 * matching listen|ADDRESS:PORT LENGTH ROUNDS */
#include <ferriband_putget.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void check(int error, const char *what)
{
    if (error) {
        fprintf(stderr, "%s: %s\n", what, strerror(error));
        exit(1);
    }
}

static void expect(const unsigned char *data, size_t length, size_t received, int value)
{
    if (received != length) {
        fprintf(stderr, "%zu of %zu bytes\n", received, length);
        exit(1);
    }
    for (size_t at = 0; at < length; at++)
        if (data[at] != (unsigned char)value) {
            fprintf(stderr, "byte %zu is %u instead of %d\n", at, data[at], value);
            exit(1);
        }
}

int main(int argc, char **argv)
{
    ferriband_channels_t *channels;
    ferriband_channel_t channel;
    ferriband_transfer_t read;
    uint16_t port;
    char text[64], *colon;
    size_t received;
    if (argc != 4)
        return 2;
    size_t length = strtoul(argv[2], NULL, 0);
    long rounds = atol(argv[3]);
    int is_master = strcmp(argv[1], "listen") != 0;
    unsigned char *out = calloc(1, length + 8), *in = calloc(1, length + 8);

    check(ferriband_channels_open("127.0.0.1", 0, &channels), "open");
    check(ferriband_channels_pin(channels, out, length + 8), "pin");
    check(ferriband_channels_pin(channels, in, length + 8), "pin");
    if (is_master) {
        if (!(colon = strrchr(argv[1], ':')))
            return 2;
        *colon = 0;
        check(ferriband_channels_connect(channels, argv[1], atoi(colon + 1), 60000, &channel), "connect");
    } else {
        check(ferriband_channels_address(channels, text, sizeof text, &port), "address");
        printf("%s:%u\n", text, port);
        fflush(stdout);
        check(ferriband_channels_accept(channels, 60000, &channel), "accept");
        check(ferriband_channels_read(channels, channel, in, length, &received), "read");
        expect(in, length, received, 0);
    }
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (long round = 0; round < rounds; round++) {
        int value = (int)(round % 251), is_last = !is_master && round + 1 == rounds;
        memset(out, value, length);
        if (!is_last)
            check(ferriband_channels_start_read(channels, channel, in, length, &read), "start_read");
        check(ferriband_channels_write(channels, channel, out, length), "write");
        if (is_last)
            break;
        check(ferriband_channels_wait(channels, read, -1, &received), "wait");
        expect(in, length, received, is_master ? value : (int)((round + 1) % 251));
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    if (is_master)
        printf("%.2f\n", ((to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec)) / rounds / 1e3);
    check(ferriband_channels_unpin(channels, in), "unpin");
    check(ferriband_channels_disconnect(channels, channel), "disconnect");
    ferriband_channels_close(channels);
    return 0;
}
