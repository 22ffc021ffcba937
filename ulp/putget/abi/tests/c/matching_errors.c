/* What the first driver's calls refuse, and how its errors are told, at both sides.
 *
 * matching_errors listen|ADDRESS:PORT */
#include <errno.h>
#include <ferriband_putget.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void is(int error, int wanted, const char *what)
{
    if (error != wanted) {
        fprintf(stderr, "%s: %s instead of %s\n", what, strerror(error), strerror(wanted));
        exit(1);
    }
}

static ferriband_channels_t *channels;
static char *there;
static int is_master;

static ferriband_channel_t next(void)
{
    ferriband_channel_t channel;
    if (is_master) {
        char *colon = strrchr(there, ':');
        *colon = 0;
        is(ferriband_channels_connect(channels, there, atoi(colon + 1), 60000, &channel), 0, "connect");
        *colon = ':';
    } else {
        is(ferriband_channels_accept(channels, 60000, &channel), 0, "accept");
    }
    return channel;
}

int main(int argc, char **argv)
{
    static char data[64], other[64];
    ferriband_transfer_t transfer, second;
    ferriband_channel_t channel;
    size_t length;
    char text[64];
    uint16_t port;
    if (argc != 2)
        return 2;
    is_master = strcmp(argv[1], "listen") != 0;
    there = argv[1];
    is(ferriband_channels_open("127.0.0.1", 0, &channels), 0, "open");
    is(ferriband_channels_address(channels, text, sizeof text, &port), 0, "address");
    if (!is_master) {
        printf("%s:%u\n", text, port);
        fflush(stdout);
    }
    is(ferriband_channels_pin(channels, data, 64), 0, "pin");
    is(ferriband_channels_pin(channels, data + 63, 2), EEXIST, "pin what is pinned");
    is(ferriband_channels_pin(channels, data, 0), EINVAL, "pin nothing");
    is(ferriband_channels_unpin(channels, other), ENOENT, "unpin what is not pinned");
    is(ferriband_channels_set_request_bytes(channels, 3), EINVAL, "set_request_bytes");
    is(ferriband_channels_test(channels, 77, NULL), EINVAL, "test of none");
    is(ferriband_channels_accept(channels, 0, &channel), ETIMEDOUT, "accept in no time");
    is(ferriband_channels_write(channels, 77, data, 1), ENOTCONN, "write without a channel");

    /* the next read takes the next message: A, B written and B, A read come out switched */
    channel = next();
    is(ferriband_channels_write(channels, channel, other, 1), EFAULT, "write what is not pinned");
    if (is_master) {
        memcpy(data, "AB", 2);
        is(ferriband_channels_write(channels, channel, data, 1), 0, "write A");
        is(ferriband_channels_write(channels, channel, data + 1, 1), 0, "write B");
    } else {
        is(ferriband_channels_start_read(channels, channel, data + 1, 8, &transfer), 0, "read for B");
        is(ferriband_channels_unpin(channels, data), EBUSY, "unpin under a read");
        is(ferriband_channels_start_read(channels, channel, data, 1, &second), 0, "read for A");
        is(ferriband_channels_wait(channels, transfer, -1, &length), 0, "wait");
        is(ferriband_channels_wait(channels, second, -1, NULL), 0, "wait");
        if (length != 1 || memcmp(data, "BA", 2)) {
            fprintf(stderr, "%zu bytes, %.2s\n", length, data);
            return 1;
        }
        is(ferriband_channels_wait(channels, second, -1, NULL), EINVAL, "wait for what was told");
    }

    /* a write waits for its read, and nothing is lost */
    if (is_master) {
        is(ferriband_channels_start_write(channels, channel, data, 2, &transfer), 0, "start_write");
        is(ferriband_channels_test(channels, transfer, NULL), EINPROGRESS, "test without a read");
        is(ferriband_channels_wait(channels, transfer, 1, NULL), ETIMEDOUT, "wait without a read");
        is(ferriband_channels_read(channels, channel, data + 8, 1, NULL), 0, "read");
        is(ferriband_channels_wait(channels, transfer, -1, &length), 0, "wait");
        is(ferriband_channels_test(channels, transfer, NULL), EINVAL, "test of what was told");
    } else {
        /* this write waits until the master has tested */
        is(ferriband_channels_write(channels, channel, data, 1), 0, "write");
        is(ferriband_channels_read(channels, channel, data, 64, &length), 0, "late read");
    }
    if (length != 2)
        return 1;

    /* a message that is longer than its read is an error of both */
    if (is_master) {
        is(ferriband_channels_write(channels, channel, data, 9), EMSGSIZE, "write 9 bytes into 8");
    } else {
        is(ferriband_channels_start_read(channels, channel, data, 8, &transfer), 0, "start_read");
        is(ferriband_channels_start_read(channels, channel, data, 8, &second), 0, "start_read");
        is(ferriband_channels_wait(channels, transfer, -1, NULL), EMSGSIZE, "read 9 bytes into 8");
        is(ferriband_channels_wait(channels, second, -1, NULL), ECONNRESET, "the read behind it");
    }
    is(ferriband_channels_start_write(channels, channel, data, 1, &transfer), ENOTCONN, "write after an error");
    is(ferriband_channels_disconnect(channels, channel), 0, "disconnect");
    is(ferriband_channels_disconnect(channels, channel), ENOTCONN, "disconnect again");

    /* the end of a channel is told to who waits */
    channel = next();
    if (is_master) {
        is(ferriband_channels_read(channels, channel, data, 1, NULL), ECONNRESET, "read while the peer leaves");
        is(ferriband_channels_disconnect(channels, channel), 0, "disconnect");
    } else {
        is(ferriband_channels_start_read(channels, channel, data, 1, &transfer), 0, "start_read");
        usleep(50000);
        is(ferriband_channels_disconnect(channels, channel), 0, "disconnect");
        is(ferriband_channels_wait(channels, transfer, -1, NULL), ECONNRESET, "wait after disconnect");
    }
    is(ferriband_channels_unpin(channels, data), 0, "unpin");
    is(ferriband_channels_connect(channels, "127.0.0.1", 1, 20000, &channel), ECONNREFUSED, "connect to nobody");
    ferriband_channels_close(channels);
    return 0;
}
